// The overview of a large fleet: scrolling reaches everything, and what is off screen is not rendered; the timeline with its keys and
// details; an empty fleet; a lost connection.

import assert from "node:assert/strict";
import { browser, live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged, picture } from "../lib/checks.mjs";
import { Server, eventOf } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const SETS = 90;
const MACHINES = 20;

// Many scale sets, most of them with one or two events.
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

export async function scrollingReachesEveryEventGroupAndOthersAreNotRendered() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await live(page);
  const cards = () => page.locator("#scopes .scope").count();
  assert.ok((await cards()) < SETS / 2, "chunks outside the viewport are rendered");
  await page.keyboard.press("End");
  const last = `web-${SETS - 1}`;
  await shows(page, "#scopes > .chunk:last-child", last);
  await page.waitForFunction((sets) => document.querySelectorAll("#scopes .scope").length < sets / 2, SETS, { timeout: PATIENCE });
  assert.ok(await page.locator("#scopes > .chunk:last-child").getByText(last, { exact: true }).first().isVisible());
  // Changes at the end of the list appear there.
  await server.listen(`web-${SETS - 1}_0`);
  await server.api("POST", `/machines/web-${SETS - 1}_4/restart`, {});
  await shows(page, "#scopes > .chunk:last-child", "1 scheduled");
  // Back at the top, the first chunks are rendered again in their current state.
  await server.api("POST", "/machines/cache-00_5/restart", {});
  await page.keyboard.press("Home");
  await page.waitForSelector('#scopes .chip.scheduled:text-is("cache-00_5")', { timeout: PATIENCE });
  // With the keyboard: focusing the link of an empty chunk fills it.
  await page.locator("#scopes > .chunk:last-child > .more a").focus();
  await page.waitForFunction(() => document.activeElement.closest(".chunk:last-child .scope"), null, { timeout: PATIENCE });
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}

export async function theTimelineIsGroupedAndExpands() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context, page } = await signedIn(server);
  await live(page);
  const expanded = (count) => page.waitForFunction((count) => document.querySelectorAll("#timeline .below").length === count, count, { timeout: PATIENCE });
  const fold = page.getByRole("button", { name: "Events of cache-00" });
  assert.equal(await fold.getAttribute("aria-expanded"), "false");
  await fold.focus();
  await page.keyboard.press("Enter");
  await expanded(2);
  assert.equal(await fold.getAttribute("aria-expanded"), "true");
  await page.waitForFunction(() => document.activeElement.matches(".fold"), null, { timeout: PATIENCE });
  await page.keyboard.press("Enter");
  await expanded(0);
  // Scrolling reaches the end of the list.
  const box = page.locator("#box-timeline");
  await box.focus();
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.querySelector("#timeline > .chunk:last-child .lane"), null, { timeout: PATIENCE });
  // Search and filter.
  await page.getByLabel("Search").fill("cache-00");
  await page.keyboard.press("Enter");
  await shows(page, "#counts", "1 event group shown");
  assert.equal(await page.locator("#timeline .lane:not(.scope-group)").count(), 2);
  assert.equal(await page.locator("#scopes .scope").count(), 1);
  await page.getByRole("link", { name: "In progress", exact: true }).click();
  await shows(page, "#panel-scopes .empty", "No matching machines.");
  assert.ok(await page.locator("#panel-timeline .empty").isVisible());
  await context.close();
  await server.end();
}

// The window moves at multiples of ten minutes. Sets the clock so that it stands still for eight minutes.
async function holdWindowFor8Minutes(server) {
  const TEN_MINUTES = 600_000;
  const { now } = await server.api("GET", "/clock");
  const next = Math.ceil(Date.parse(now) / TEN_MINUTES) * TEN_MINUTES;
  await server.api("PUT", "/clock", { now: new Date(next + 120_000).toISOString().replace(".000Z", "Z") });
}

export async function theTimelineHasKeysAndDetails() {
  const server = await Server.start("--clock", "manual");
  await holdWindowFor8Minutes(server);
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
  assert.ok((await width()) > 2 * wide, "plus zooms in");
  for (const _ of "--") await page.keyboard.press("-");
  assert.ok((await width()) < wide, "minus zooms out");
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowLeft");
  assert.ok((await place()) > at + 20, "left moves to earlier times");
  await page.keyboard.press("0");
  assert.equal(await place(), at);
  // The line of the current time moves, and the window stands still.
  await server.api("POST", "/clock/advance", { seconds: 30 });
  await page.waitForFunction((at) => parseFloat(document.getElementById("present").getAttribute("x1")) > at, at, { timeout: PATIENCE });
  assert.equal(await width(), wide);
  // The details are next to the lane and not cut off.
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

export async function anEmptyFleetShowsHowToStartAndALostConnectionIsShown() {
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

export async function withoutJavaScriptPagesAndLinksWork() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context: signed } = await signedIn(server);
  const context = await browser.newContext({ javaScriptEnabled: false, storageState: await signed.storageState() });
  const page = await context.newPage();
  await page.goto(server.management + "/");
  await page.locator("#scopes > .chunk:last-child > .more a").click();
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
    await shows(page, "#scopes > .chunk:last-child", `web-${SETS - 1}`);
    await judged(page, `the end of a large fleet, ${look.colorScheme}, ${look.viewport.width}`);
    await picture(page, look, "fleet-machines");
  });
  await server.end();
}
