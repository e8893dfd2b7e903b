// The overview of a large fleet: everything is reached by scrolling, what is off the screen costs nothing; the time line by scope,
// its keys and its facts; an empty fleet; a server that is gone.

import assert from "node:assert/strict";
import { browser, live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged, picture } from "../lib/checks.mjs";
import { Server, eventOf } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const SETS = 90;
const MACHINES = 20;

// Many sets of some machines, an event or two in most of them.
async function many(server) {
  const two = (number) => String(number).padStart(2, "0");
  for (let n = 0; n < SETS; n++) {
    const name = `${["cache", "queue", "web"][n % 3]}-${two(n)}`;
    await server.api("POST", "/scale-sets", { name, capacity: MACHINES, orchestration: "Uniform" });
    if (n % 10 === 9) continue;
    await server.listen(`${name}_0`);
    for (const machine of [`${name}_1`, `${name}_2`].slice(n % 2)) await server.api("POST", "/maintenance", { target: { machine }, type: ["Freeze", "Reboot", "Redeploy"][n % 3], noticeSeconds: 900 + 120 * (n % 17) });
  }
}

export async function everyScopeIsReachedByScrollingAndTheRestIsNotThere() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await live(page);
  const cards = () => page.locator("#scopes .scope").count();
  assert.ok((await cards()) < SETS / 2, "what is off the screen is drawn");
  await page.keyboard.press("End");
  const last = `web-${SETS - 1}`;
  await shows(page, "#scopes > .shelf:last-child", last);
  await page.waitForFunction((sets) => document.querySelectorAll("#scopes .scope").length < sets / 2, SETS, { timeout: PATIENCE });
  assert.ok(await page.locator("#scopes > .shelf:last-child").getByText(last, { exact: true }).first().isVisible());
  // A change down there is seen there.
  await server.listen(`web-${SETS - 1}_0`);
  await server.api("POST", `/machines/web-${SETS - 1}_4/restart`, {});
  await shows(page, "#scopes > .shelf:last-child", "1 coming");
  // Back at the top the first ones are there again, as they are by then.
  await server.api("POST", "/machines/cache-00_5/restart", {});
  await page.keyboard.press("Home");
  await page.waitForSelector('#scopes .chip.scheduled:text-is("cache-00_5")', { timeout: PATIENCE });
  // By the keyboard alone: the link of a stretch that is not there yet brings it.
  await page.locator("#scopes > .shelf:last-child > .more a").focus();
  await page.waitForFunction(() => document.activeElement.closest(".shelf:last-child .scope"), null, { timeout: PATIENCE });
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}

export async function theTimeLineStandsByScopeAndUnfolds() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context, page } = await signedIn(server);
  await live(page);
  const unfolded = (count) => page.waitForFunction((count) => document.querySelectorAll("#timeline .below").length === count, count, { timeout: PATIENCE });
  const fold = page.getByRole("button", { name: "Events of cache-00" });
  assert.equal(await fold.getAttribute("aria-expanded"), "false");
  await fold.focus();
  await page.keyboard.press("Enter");
  await unfolded(2);
  assert.equal(await fold.getAttribute("aria-expanded"), "true");
  await page.waitForFunction(() => document.activeElement.matches(".fold"), null, { timeout: PATIENCE });
  await page.keyboard.press("Enter");
  await unfolded(0);
  // The end of the list is reached by scrolling in it.
  const box = page.locator("#box-timeline");
  await box.focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.querySelector("#timeline > .shelf:last-child .lane"), null, { timeout: PATIENCE });
  // Only what is wanted.
  await page.getByLabel("Find").fill("cache-00");
  await page.keyboard.press("Enter");
  await shows(page, "#counts", "1 scope shown");
  assert.equal(await page.locator("#timeline .lane:not(.strand)").count(), 2);
  assert.equal(await page.locator("#scopes .scope").count(), 1);
  await page.getByRole("link", { name: "Under way", exact: true }).click();
  await shows(page, "#panel-scopes .empty", "No machine is found.");
  assert.ok(await page.locator("#panel-timeline .empty").isVisible());
  await context.close();
  await server.end();
}

// The window of 40 minutes begins at whole ten minutes: two minutes after such a one, it stays where it is for a while.
async function stillFor8Minutes(server) {
  const TEN_MINUTES = 600_000;
  const { now } = await server.api("GET", "/clock");
  const next = Math.ceil(Date.parse(now) / TEN_MINUTES) * TEN_MINUTES;
  await server.api("PUT", "/clock", { now: new Date(next + 120_000).toISOString().replace(".000Z", "Z") });
}

export async function theTimeLineHasKeysAndFacts() {
  const server = await Server.start("--clock", "manual");
  await stillFor8Minutes(server);
  await server.api("POST", "/machines", { name: "web" });
  server.curl("web");
  const event = eventOf(await server.api("POST", "/machines/web/restart", {}));
  await server.api("POST", "/clock/advance", { seconds: 60 });
  server.approve("web", event);
  const { context, page } = await signedIn(server, { viewport: { width: 390, height: 700 } });
  await live(page);
  const track = page.locator(`#lane-${event} .track`);
  const width = () => page.getAttribute(`#lane-${event} rect.notice`, "width").then(parseFloat);
  const place = () => page.getAttribute("#present", "x1").then(parseFloat);
  await track.focus();
  const [wide, at] = [await width(), await place()];
  await page.keyboard.press("+");
  assert.ok((await width()) > 2 * wide, "plus brings it closer");
  for (const _ of "--") await page.keyboard.press("-");
  assert.ok((await width()) < wide, "minus takes it farther");
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowLeft");
  assert.ok((await place()) > at + 20, "left shows what was earlier");
  await page.keyboard.press("0");
  assert.equal(await place(), at);
  // The line of the present moves, and the window stays where it is.
  await server.api("POST", "/clock/advance", { seconds: 30 });
  await page.waitForFunction((at) => parseFloat(document.getElementById("present").getAttribute("x1")) > at, at, { timeout: PATIENCE });
  assert.equal(await width(), wide);
  // The facts are beside the lane and not cut off.
  await page.evaluate(() => document.activeElement.blur());
  await track.focus();
  const tip = page.locator(".tip");
  await shows(page, ".tip", "by machine web");
  const { x, y, width: across, height } = await tip.boundingBox();
  assert.ok(x >= 0 && y >= 0 && x + across <= 390 && y + height <= 700, `${x} ${y} ${across} ${height}`);
  await page.keyboard.press("Escape");
  assert.ok(await tip.isHidden());
  await context.close();
  await server.end();
}

export async function anEmptyFleetSaysHowToBeginAndAServerThatIsGoneIsSaidToBe() {
  const server = await Server.start("--clock", "manual");
  await server.api("DELETE", "/machines/vm");
  const { context, page } = await signedIn(server);
  await live(page);
  await shows(page, "#panel-start", "forewarn vm create web");
  await judged(page, "an empty fleet");
  await server.api("POST", "/machines", { name: "web" });
  await shows(page, "#scopes", "web");
  assert.ok(await page.locator("#panel-start").isHidden());
  await server.kill();
  await shows(page, "#stale", "Disconnected at");
  await page.setViewportSize({ width: 390, height: 844 });
  await judged(page, "disconnected, on a phone");
  await server.run();
  await live(page);
  assert.ok(await page.locator("#stale").isHidden());
  await context.close();
  await server.end();
}

export async function withoutScriptPagesAndLinksStillWork() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context: signed } = await signedIn(server);
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: await signed.storageState() });
  const page = await context.newPage();
  await page.goto(server.management + "/");
  await page.locator("#scopes > .shelf:last-child > .more a").click();
  assert.ok(await page.getByRole("link", { name: `web-${SETS - 1}`, exact: true }).first().isVisible());
  assert.ok(await page.locator("#axis text").first().isVisible());
  await signed.close();
  await context.close();
  await server.end();
}

export async function aLargeFleetIsReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    await page.goto(server.management + "/");
    await live(page);
    await judged(page, `large fleet, ${look.colorScheme}, ${look.viewport.width}`);
    await picture(page, look, "fleet", ["fleet"]);
    await page.keyboard.press("End");
    await shows(page, "#scopes > .shelf:last-child", `web-${SETS - 1}`);
    await judged(page, `the end of a large fleet, ${look.colorScheme}, ${look.viewport.width}`);
    await picture(page, look, "fleet-machines");
  });
  await server.end();
}
