// Maintenance is planned in the reader's time zone, previewed, followed by update domain, and canceled.

import assert from "node:assert/strict";
import { browser, live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged, picture } from "../lib/checks.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const START = "2026-03-01T12:00:00Z";

// The width of a small phone.
const NARROW = 360;

async function withSet() {
  const server = await Server.start("--clock", "manual", "--clock-start", START);
  await server.api("POST", "/scale-sets", { name: "web", capacity: 3, orchestration: "Uniform" });
  await server.listen("web_0");
  return server;
}

const button = (page, name) => page.getByRole("button", { name, exact: true });

export async function aPlanUsesTheReadersTimeZoneAndIsFollowedUntilCanceled() {
  const server = await withSet();
  const { context, page } = await signedIn(server, { timezoneId: "Asia/Tokyo" });
  const found = [];
  complaints(page, found);
  await page.goto(server.management + "/scale-sets");
  await page.click("main >> text=web");
  await page.getByRole("link", { name: "Plan maintenance" }).click();
  await live(page);
  assert.equal(await page.getByLabel("Name").inputValue(), "default/web");
  await page.getByLabel("Type").selectOption("Reboot");
  await page.getByLabel("Cause").selectOption("Live migration");
  await page.getByLabel("Not before (Asia/Tokyo)").fill("2026-03-01T20:00");
  await shows(page, ".plan", "2026-03-01 11:00 UTC");
  await page.getByLabel("Description").fill("Firmware");
  await button(page, "Preview").click();
  await shows(page, "#wrong-at", "is in the past");
  assert.equal(await page.getByLabel("Description").inputValue(), "Firmware");
  await page.getByLabel("Not before (Asia/Tokyo)").fill("2026-03-01T23:00");
  await page.getByLabel("Notice").fill("1m");
  await button(page, "Preview").click();
  await shows(page, "#wrong-notice", "at least 15m");
  assert.equal(await page.getByLabel("Not before (Asia/Tokyo)").inputValue(), "2026-03-01T23:00", "the time is kept, in the reader's time zone");
  await page.getByLabel("Notice").fill("1h");
  await button(page, "Preview").click();
  await shows(page, ".order", "web_2");
  assert.match(await page.textContent(".order tbody tr"), /web_0.*not before 23:00:00/);
  assert.equal((await server.api("GET", "/operations")).value.length, 0);
  await button(page, "Schedule maintenance").click();
  await page.waitForURL(/\/operations\//);
  await shows(page, "#toast", "Scheduled maintenance.");
  await page.goto(server.management + "/maintenance");
  await shows(page, "#operations", "Reboot of web");
  const [operation] = (await server.api("GET", "/operations")).value;
  assert.equal(operation.at, "2026-03-01T14:00:00Z");
  assert.equal(operation.cause, "LiveMigration");
  await live(page);
  await page.evaluate(() => (window.neverReloaded = true));
  await server.api("POST", `/events/${operation.events[0].id}/approve`);
  await shows(page, "#operations .line:nth-child(1)", "In progress");
  await server.api("POST", "/clock/advance", { seconds: 700 });
  await shows(page, "#operations .line:nth-child(1)", "Completed");
  await shows(page, "#operations .line:nth-child(2)", "after a pause");
  await page.locator("#operations summary").click();
  await shows(page, "#operations", "Update domains from 1 on are skipped.");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  await page.locator("#operations form button").click();
  await shows(page, "#operations", "canceled by owner");
  assert.deepEqual(found.filter((text) => !text.includes("422")), []);
  await context.close();
  await server.end();
}

export async function withoutJavaScriptTimesAreUtc() {
  const server = await withSet();
  const { context: signed } = await signedIn(server);
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: await signed.storageState(), timezoneId: "Asia/Tokyo" });
  const page = await context.newPage();
  await page.goto(server.management + "/maintenance?what=machine&name=web_0,web_2");
  await page.getByLabel("Not before (UTC)").fill("2026-03-01T14:00");
  await button(page, "Preview").click();
  assert.match(await page.textContent(".order"), /not before 2026-03-01 14:00:00 UTC/);
  await button(page, "Schedule maintenance").click();
  const [operation] = (await server.api("GET", "/operations")).value;
  assert.deepEqual([operation.at, operation.machines], ["2026-03-01T14:00:00Z", ["web_0", "web_2"]]);
  await signed.close();
  await context.close();
  await server.end();
}

export async function aHostIsRegisteredMaintainedAndFails() {
  const server = await Server.start("--clock", "manual");
  await server.api("POST", "/availability-sets", { name: "db" });
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await page.click("nav >> text=Hosts");
  await live(page);
  await page.locator("#field-name").fill("rack 4");
  await button(page, "Register").click();
  await shows(page, "#wrong-name", "is not a valid name");
  assert.equal(await page.locator("#field-name").inputValue(), "rack 4");
  await page.locator("#field-name").fill("rack-4");
  await button(page, "Register").click();
  await page.waitForURL(/\/hosts\/rack-4$/);
  await live(page);
  for (const name of ["db-1", "db-2"]) await server.api("POST", "/machines", { name, availabilitySet: "db", host: "rack-4" });
  await server.api("POST", "/machines", { name: "mail", host: "rack-4" });
  for (const name of ["db-1", "mail"]) await server.listen(name);
  await shows(page, "#machines", "mail");
  const operation = await server.api("POST", "/maintenance", { target: { host: "rack-4" }, type: "Freeze" });
  await shows(page, "#operations", "Freeze of host rack-4");
  // An approved event of a host operation waits for the others.
  await page.goto(`${server.management}/events/${operation.events[0].id}`);
  await page.locator("#do-approve > summary").click();
  await shows(page, "#do-approve", "starts when all its events are approved. Still missing: db-2 and mail");
  await page.goto(server.management + "/hosts/rack-4");
  await page.locator("#do-more > summary").click();
  await page.locator("#do-lose-host > summary").click();
  await shows(page, "#do-lose-host", "Redeploy starts immediately, without notice");
  await page.locator("#do-lose-host button").click();
  await shows(page, "#operations", "Hardware failure on host rack-4");
  await shows(page, "#timeline", "Hardware failure on host rack-4");
  assert.deepEqual(found.filter((text) => !text.includes("422")), []);
  await context.close();
  await server.end();
}

export async function plansAndHostsAreReadableInEveryTheme() {
  const server = await withSet();
  for (const name of ["db-1", "db-2"]) await server.api("POST", "/machines", { name, host: "rack-4" });
  await server.listen("db-1");
  await server.api("PUT", "/hosts/rack-5");
  await server.api("POST", "/maintenance", { target: { host: "rack-4" }, type: "Freeze" });
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    const at = `${look.colorScheme}, ${look.viewport.width}`;
    await page.goto(server.management + "/maintenance?what=group&name=web");
    await button(page, "Preview").click();
    await page.waitForSelector(".order", { timeout: PATIENCE });
    await judged(page, `a plan, ${at}`);
    await picture(page, look, "plan");
    await page.getByLabel("Notice").fill("soon");
    await button(page, "Preview").click();
    await shows(page, "#wrong-notice", "such as 90s");
    await judged(page, `a plan with errors, ${at}`);
    for (const [name, path] of [["hosts", "/hosts"], ["host", "/hosts/rack-4"]]) {
      await page.goto(server.management + path);
      await live(page);
      for (const summary of await page.locator("#actions summary").all()) await summary.click();
      await judged(page, `${name}, ${at}`);
    }
  });
  await server.end();
}

// Machines of each group on these hosts. The rules ignore machines that were stopped on purpose, so a plan can leave kafka with fewer machines than its floor.
const PLACES = { kafka: [1, 3, 4, 7], postgres: [1, 2, 3, 4, 5, 6, 7, 8], vault: [2, 5], ledger: [2, 4, 6, 8], search: [1, 2, 3, 5, 6, 7], gateway: [1, 3, 5, 6, 8] };
const BEFORE_WINDOW = "2026-03-02T01:00:00Z";
const CONFLICT = "/rollouts/plan?hosts=r1-n1,r1-n2,r1-n3,r1-n4,r1-n5,r1-n6&type=Reboot&parallel=2&pause=5m&window=02:00-06:00&unavailable=2&description=CHG-20188+Microcode";

async function withStoppedMachine() {
  const server = await Server.start("--clock", "manual", "--clock-start", BEFORE_WINDOW);
  for (const [group, hosts] of Object.entries(PLACES)) {
    await server.api("POST", "/availability-sets", { name: group });
    for (const host of hosts) await server.api("POST", "/machines", { name: `${group}-${host}`, availabilitySet: group, host: `r1-n${host}` });
    await server.listen(`${group}-${hosts[0]}`);
  }
  await server.api("POST", "/machines", { name: "kafka-9", availabilitySet: "kafka", host: "r1-n9" });
  await server.api("POST", "/machines/kafka-9/stop");
  return server;
}

// The steps that are drawn as conflicts, with the machines beside their bars.
const conflicts = (page) => page.$$eval(".g-conflict", (lanes) => lanes.map((lane) => [lane.querySelector(".g-name a").textContent, lane.querySelector("text").textContent]));

// Whether the bars of conflicts are hatched: the pattern exists, and the style of the bars does not replace it.
const areHatched = (page) =>
  page.$$eval(".g-conflict rect.cf", (bars) => bars.every((bar) => getComputedStyle(bar).fill.includes("#hatch") && bar.getBoundingClientRect().width > 0 && document.querySelector("pattern#hatch")));

export async function aConflictIsSolvedInTheNextWave() {
  const server = await withStoppedMachine();
  const { context, page } = await signedIn(server, { timezoneId: "UTC" });
  const found = [];
  complaints(page, found);
  await page.goto(server.management + CONFLICT);
  await live(page);
  assert.deepEqual(await conflicts(page), [["r1-n3", "kafka-3"], ["r1-n4", "kafka-4"]]);
  assert.ok(await areHatched(page), "the bars are hatched");
  await shows(page, ".gantt .legend", "conflict");
  await shows(page, "#conflict", "kafka would have 2 of 5 up at 02:37:00, floor 3. r1-n3 and r1-n4 are both in wave 2.");
  assert.equal(await page.locator(".cp-bad").count(), 1, "the chart of one group falls below its floor");

  // Without the confirmation, the browser sends nothing.
  const confirmed = page.getByLabel("Schedule even though kafka falls below its floor");
  const color = () => button(page, "Schedule 6 hosts").evaluate((button) => getComputedStyle(button).backgroundColor);
  const blocked = await color();
  await confirmed.check();
  assert.notEqual(await color(), blocked, "the button looks disabled until the visitor confirms");
  await confirmed.uncheck();
  await button(page, "Schedule 6 hosts").click();
  assert.ok(await confirmed.evaluate((box) => box.validity.valueMissing));
  assert.deepEqual((await server.api("GET", "/rollouts")).value, []);

  await page.getByRole("link", { name: "Move r1-n4 to wave 3" }).click();
  await page.waitForURL(/hosts=r1-n1%2Cr1-n2%2Cr1-n3%2Cr1-n5%2Cr1-n4/);
  await live(page);
  assert.deepEqual(await conflicts(page), []);
  await shows(page, "#moved", "r1-n4 is now in wave 3: down from");
  for (const absent of ["#conflict", ".key.cf", ".cp-bad", ".planfoot [type=checkbox]"]) assert.equal(await page.locator(absent).count(), 0, absent);
  assert.equal(await page.locator("#wave-3 .g-name a", { hasText: "r1-n4" }).count(), 1);
  await button(page, "Schedule 6 hosts").click();
  await page.waitForURL(/rollouts\/[0-9a-f-]{36}$/);
  await shows(page, "#toast", "Scheduled a rollout with 6 steps.");
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}

export async function aConfirmedConflictIsScheduled() {
  const server = await withStoppedMachine();
  const { context, page } = await signedIn(server);
  await page.goto(server.management + CONFLICT);
  await page.getByLabel("Schedule even though kafka falls below its floor").check();
  await button(page, "Schedule 6 hosts").click();
  await page.waitForURL(/rollouts\/[0-9a-f-]{36}$/);
  assert.equal((await server.api("GET", "/rollouts")).value.length, 1);
  await context.close();
  await server.end();
}

export async function aConflictIsReadableInEveryTheme() {
  const server = await withStoppedMachine();
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    const width = look.viewport.width < 500 ? NARROW : look.viewport.width;
    await page.setViewportSize({ ...look.viewport, width });
    await page.goto(server.management + CONFLICT);
    await live(page);
    await shows(page, "#conflict", "kafka would have");
    assert.ok(await areHatched(page), `hatched, ${look.colorScheme}, ${width}`);
    await judged(page, `a conflict, ${look.colorScheme}, ${width}`);
    await picture(page, look, "plan-rollout");
  });
  await server.end();
}
