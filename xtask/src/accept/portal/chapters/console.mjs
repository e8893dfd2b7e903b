// The pages of the console: operations, hosts, the planner, rollouts, lists, search and keys; in both themes, at desktop and phone size.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged, readable } from "../lib/checks.mjs";
import { night } from "../lib/fleet.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const LONG = "a-machine-with-a-name-of-one-hundred-and-twenty-four-characters-which-is-nearly-as-long-as-a-name-can-be-in-this-product-0001";

const button = (page, name) => page.getByRole("button", { name, exact: true });

// Six hosts with one machine of each of three groups, an operation on one of them, a rollout over three, a drain.
async function console_() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T12:00:00Z");
  const post = (path, body = {}) => server.api("POST", path, body);
  for (const group of ["db", "queue", "web"]) await post("/availability-sets", { name: group });
  for (let n = 1; n <= 6; n++) {
    for (const group of ["db", "queue", "web"]) await post("/machines", { name: `${group}-${n}`, availabilitySet: group, host: `rack-${n}` });
  }
  await post("/machines", { name: LONG, host: "rack-6" });
  for (const name of ["db-1", "queue-1"]) await server.listen(name);
  const operation = await post("/maintenance", { target: { host: "rack-6" }, type: "Reboot", description: "CHG-20170 Replace a DIMM", durationSeconds: 600 });
  const rollout = await post("/rollouts", { type: "Reboot", hosts: ["rack-1", "rack-2", "rack-3"], description: "CHG-20151 Firmware", durationSeconds: 300 });
  await post("/hosts/rack-5/drain");
  await post("/webhooks", { name: "ops", url: "http://127.0.0.1:9/hook" });
  return { server, operation, rollout };
}

// The causes on the overview add up to the numbers of its sentence, which says what comes first and when.
async function countsAddUp(page) {
  const causes = await page.$$eval("#status .by > span", (causes) => causes.map((cause) => [cause.textContent, Number(cause.querySelector("b").textContent)]));
  const sum = (isWanted) => causes.filter(([text]) => isWanted(text)).reduce((sum, [, machines]) => sum + machines, 0);
  const failed = sum((text) => /recovering|until you act/.test(text));
  const down = `${sum(() => true)} machines down now, ${failed} because of failures`;
  await shows(page, "#status .say", `${down}. Next: 5 deleted at 02:54, 8 more down at 03:00; pay-db may fall below its floor of`);
  await shows(page, "#status .by", "Hardware failure on host r02-n06");
  await fitsTheFirstScreen(page);
  await actionsComeFirst(page);
  await rowsAnswer(page);
  await buttonsCoverNothing(page);
}

// A sentence of two lines, at most seven rows of two lines, and lanes of the timeline.
async function fitsTheFirstScreen(page) {
  const lines = await page.$eval("#status .say", (say) => Math.round(say.getBoundingClientRect().height / parseFloat(getComputedStyle(say).lineHeight)));
  assert.ok(lines <= 2, `the headline has ${lines} lines: ${await page.textContent("#status .say")}`);
  const heights = await page.$$eval("#attention > li[class^=s-]", (rows) => rows.map((row) => row.getBoundingClientRect().height));
  assert.ok(heights.length <= 7 && heights.every((height) => height <= 54), `${heights}`);
  const lanes = await page.$$eval("#timeline .lane", (lanes) => lanes.filter((lane) => lane.getBoundingClientRect().bottom <= 900).length);
  assert.ok(lanes >= 3, `${lanes} lanes are on the first screen`);
}

// A row says what happens without an operator and who is not ready. It has one button; the others are in its menu.
async function rowsAnswer(page) {
  const row = page.locator("#attention > li", { hasText: "Reboot of host r01-n03" });
  const text = await row.textContent();
  for (const part of ["CHG-20170 Replace DIMM A3", "not ready: search-03 (silent) and tax-prod-03 (no handler)", "down in 8 min 00 s", "ready or not", "2/4 ready"]) {
    assert.ok(text.includes(part), `${part}: ${text}`);
  }
  const buttons = () => row.locator("button:visible, a.button:visible").count();
  assert.equal(await buttons(), 1);
  await row.locator("summary").click();
  assert.equal(await buttons(), 2);
  await row.getByRole("link", { name: "Open operation" }).waitFor();
  await row.locator("summary").click();
  await shows(page, "#attention-host-r03-n04", "until you activate the host");
  await shows(page, "#attention", "checkout: 40 → 35");
}

async function buttonsCoverNothing(page) {
  const covered = await page.$$eval("#attention > li .acts", (forms) =>
    forms.filter((form) => {
      const [buttons, text] = [form, form.closest("li").querySelector(".imp")].map((element) => element.getBoundingClientRect());
      return buttons.left < text.right && text.left < buttons.right && buttons.top < text.bottom && text.top < buttons.bottom;
    }).length,
  );
  assert.equal(covered, 0, "buttons cover the text beside them");
}

// Rows that need action are above those that do not: first what can still be prevented, and of that what puts a floor at risk; then deletions, which cannot
// be canceled; then rows without a deadline. The page says with which one to start.
async function actionsComeFirst(page) {
  const rows = await page.$$eval("#attention > li:not(.head, .note)", (rows) =>
    rows.map((row) => [row.id, Number(row.querySelector(".count")?.dataset.until ?? 0), row.querySelector(".b")?.textContent.trim() ?? ""]),
  );
  const calm = rows.findIndex(([id]) => id === "attention-calm");
  assert.deepEqual([rows[0][0], rows[2][0]], ["attention-first", "attention-next"], JSON.stringify(rows));
  await shows(page, "#attention-first", "Start here");
  await shows(page, `#${rows[1][0]}`, "floor 14");
  const urgent = rows.slice(0, calm).filter(([, , kind]) => kind !== "");
  const dated = urgent.filter(([, until]) => until > 0);
  assert.deepEqual(urgent.slice(0, dated.length), dated, "rows with a deadline come first");
  assert.ok(dated.length > 2 && dated.findIndex(([, , kind]) => kind === "Terminate") === dated.length - 1, JSON.stringify(rows));
  const primary = await page.$$eval("#main .primary", (buttons) => buttons.map((button) => button.closest("#attention > li").id));
  assert.deepEqual(primary, [rows[1][0]], "only the first row has a primary button");
  await shows(page, "#attention", "requested by you");
  await shows(page, ".clock-kind", "manual clock");
}

// The rollout, the hosts and the group agree on what has failed and on the floor.
async function pagesAgree(server, page, pages) {
  await page.goto(server.management + pages.rollout);
  await live(page);
  await shows(page, "#steps tr:first-child", "HostFailed");
  await shows(page, "#status", "1 failed: r03-n04");
  const floor = async (selector) => Number((await page.textContent(selector)).match(/[Ff]loor (\d+)/)[1]);
  const ofRollout = await floor(`#capacity div:has(a[href="${pages.group}"]) dd`);
  await page.goto(server.management + pages.group);
  await live(page);
  assert.equal(await floor(".head-facts"), ofRollout);
  await shows(page, "#machines", "Host r03-n04 is off");
  await shows(page, "#status", "the floor");
  await page.goto(server.management + pages.hosts);
  await live(page);
  await shows(page, "#host-r02-n06", "Hardware failure");
  await shows(page, "#host-r01-n02", "1 of 4 machines");
  assert.equal(await floor(`#hosts tr:has(a[href="${pages.group}"]) td[data-label="If the host goes down"]`), ofRollout);
}

export async function aHostThatIsOffIsActivatedFromTheOverview() {
  const { server } = await console_();
  await server.api("POST", "/hosts/rack-4/fence");
  const { context, page } = await signedIn(server);
  await page.goto(`${server.management}/hosts/rack-4`);
  await shows(page, "#status", "fenced by owner");
  await page.goto(server.management + "/");
  await live(page);
  await page.getByRole("button", { name: "Activate host… Host rack-4 is off" }).click();
  await shows(page, "h1", "Activate rack-4?");
  await button(page, "Activate").click();
  await shows(page, "#toast", "Activated 1 host.");
  await page.locator("#toast a").click();
  await shows(page, "h1", "rack-4");
  await page.goto(`${server.management}/hosts`);
  await shows(page, "#host-rack-4", "Active");
  await context.close();
  await server.end();
}

export async function aFailedStepIsRetriedFromThePageOfItsRollout() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T12:00:00Z");
  for (const n of [1, 2]) await server.api("POST", "/machines", { name: `db-${n}`, host: `rack-${n}` });
  await server.listen("db-1");
  const plan = { type: "Reboot", hosts: ["rack-1", "rack-2"], pauseSeconds: 600, maxFailures: 10 };
  const rollout = await server.api("POST", "/rollouts", plan);
  await server.api("POST", "/hosts/rack-1/fence");
  const { context, page } = await signedIn(server);
  await page.goto(`${server.management}/rollouts/${rollout.id}`);
  await live(page);
  await shows(page, "#status", "1 failed: rack-1");
  await page.locator("#do-retry-steps > summary").click();
  await shows(page, "#do-retry-steps", "earlier failures keep counting");
  await page.locator("#confirm-do-retry-steps").click();
  await shows(page, "#toast", "Requested a retry of failed steps");
  await shows(page, "#steps", "rack-1 (retry)");
  await shows(page, "#steps", "Failed, retried");
  await context.close();
  await server.end();
}

export async function theHostOfAMachineIsChangedAfterAPreview() {
  const { server } = await console_();
  const { vmId } = await server.api("GET", "/machines/db-6");
  const { context, page } = await signedIn(server);
  await page.goto(`${server.management}/machines/${vmId}`);
  await live(page);
  await page.locator("#machine-host-content").getByLabel("Host").fill("rack-4");
  await page.locator("#machine-host-content").getByRole("button", { name: "Preview" }).click();
  await shows(page, "h1", "Change the host of db-6?");
  await shows(page, "main", "db-6 counts as on host rack-4 instead of host rack-6.");
  await button(page, "Change host").click();
  await shows(page, "#toast", "Changed the host of db-6.");
  assert.equal((await server.api("GET", "/machines/db-6")).host, "rack-4");
  await context.close();
  await server.end();
}

export async function everyPageOfTheConsoleIsReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T02:00:00Z");
  const pages = await night(server, LONG);
  const { context, page } = await signedIn(server, { viewport: { width: 1440, height: 900 } });
  await countsAddUp(page);
  await pagesAgree(server, page, pages);
  const state = await context.storageState();
  await context.close();
  await readable(server, state, pages);
  await server.end();
}

export async function anOperationIsApprovedFromItsPage() {
  const { server, operation } = await console_();
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await page.goto(`${server.management}/operations/${operation.id}`);
  await live(page);
  await shows(page, "#status", "4 of 4 not ready: db-6 (silent), queue-6 (silent)");
  await shows(page, "#facts", "approval of db-6 and queue-6");
  const progress = (text) => shows(page, "#progress", text);
  for (const text of ["Announced 2/4, 2 without a handler", "Seen 0/4, 2 have not", "Ready 0/4, 4 not ready", "Up again 0/4, about"]) await progress(text);
  await shows(page, "#missing", "No handler, not notified.");
  await page.evaluate(() => (window.neverReloaded = true));
  await server.listen("queue-6");
  await server.api("POST", "/clock/advance", { seconds: 1 });
  await progress("Seen 1/4, 1 has not");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  // One machine.
  const row = page.locator("#missing tr", { has: page.locator("th", { hasText: "db-6" }) });
  await row.locator(".action > summary").click();
  await row.getByRole("button", { name: "Approve", exact: true }).click();
  await shows(page, "#toast", "Approved Reboot of db-6.");
  await shows(page, "#status", "3 of 4 not ready");
  await progress("Ready 1/4, 3 not ready");
  // All machines.
  await page.locator("#do-approve-operation > summary").click();
  await shows(page, "#do-approve-operation", "4 machines go down now instead of at");
  await button(page, "Approve and start now").click();
  await shows(page, "#toast", "Approved all events of operation");
  await shows(page, "#status", "4 machines down");
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}

export async function hostsAreSelectedAndDrained() {
  const { server } = await console_();
  const { context, page } = await signedIn(server);
  await page.goto(server.management + "/hosts");
  await live(page);
  assert.ok(await page.locator(".selbar").isHidden());
  await page.getByLabel("Select rack-4").check();
  await shows(page, ".selbar", "1 selected · 3 machines");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelector(".selbar").hidden, null, { timeout: PATIENCE });
  await page.getByLabel("Select rack-4").check();
  await button(page, "Drain…").click();
  await shows(page, "h1", "Drain rack-4?");
  await button(page, "Drain").click();
  await shows(page, "#toast", "Draining 1 host.");
  await shows(page, "#host-rack-4", "Draining");
  await context.close();
  await server.end();
}

export async function keysAndSearch() {
  const { server } = await console_();
  const { context, page } = await signedIn(server);
  await live(page);
  await page.keyboard.press("?");
  assert.ok(await page.locator("#keys").isVisible());
  await judged(page, "keyboard shortcuts");
  await page.keyboard.press("Escape");
  await page.locator("#keys").waitFor({ state: "hidden", timeout: PATIENCE });
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.id === "find", null, { timeout: PATIENCE });
  await page.keyboard.type("queeu-3");
  await page.keyboard.press("Enter");
  await shows(page, "main", "Did you mean queue-3");
  await page.getByRole("link", { name: "queue-3" }).click();
  await shows(page, "h1", "queue-3");
  // The shortcuts work once the script has run.
  await live(page);
  await page.keyboard.press("g");
  await page.keyboard.press("h");
  await page.waitForURL(/\/hosts$/);
  await live(page);
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await shows(page, ".selbar", "1 selected");
  await context.close();
  await server.end();
}

export async function aReaderSeesEverythingAndIsOfferedNoActions() {
  const { server, operation } = await console_();
  const token = server.issueToken("reader");
  const made = await fetch(`${server.management}/api/v1/portal-links`, { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  const { path } = await made.json();
  await inEveryLook(undefined, async (page, look) => {
    if (look.viewport.width < 500 || look.colorScheme === "dark") return;
    await page.goto(server.management + path);
    await page.waitForURL(server.management + "/");
    await shows(page, ".user", "reader");
    await page.goto(server.management + "/hosts");
    await shows(page, "main", "Requires the operator role.");
    assert.equal(await page.locator("input[type=checkbox][name=host]").count(), 0);
    await page.goto(`${server.management}/operations/${operation.id}`);
    await page.locator("#do-cancel-operation > summary").click();
    await shows(page, "#do-cancel-operation", "Requires the operator role.");
  });
  await server.end();
}

// The actions of a machine are beside its name, or below it where there is no room, and never cover it.
export async function actionsStandBesideTheNameOfAMachine() {
  const { server } = await console_();
  const { vmId } = await server.api("GET", `/machines/${LONG}`);
  const { context, page } = await signedIn(server);
  for (const width of [1440, 1200, 1000, 360]) {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${server.management}/machines/${vmId}`);
    await live(page);
    for (const isOpen of [false, true]) {
      if (isOpen) await page.locator("#do-more > summary").click();
      const [name, actions] = await page.$$eval("h1, #panel-actions", (found) => found.map((element) => element.getBoundingClientRect().toJSON()));
      const at = `at ${width}, ${isOpen ? "open" : "closed"}: ${JSON.stringify([name, actions])}`;
      if (width > 1180) assert.ok(actions.top < name.bottom && name.right <= actions.left && actions.right <= width, at);
      else assert.ok(name.bottom <= actions.top, at);
    }
  }
  await context.close();
  await server.end();
}
