// The overview by cause: one lane per operation in a large fleet, folds and zoom in the address, keys and details, an empty fleet, a
// lost connection.

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

export async function oneLanePerOperationExpandsAndTheAddressKeepsTheView() {
  const server = await Server.start("--clock", "manual");
  for (const set of ["red", "blue"]) {
    await server.api("POST", "/availability-sets", { name: set });
    for (const n of [1, 2, 3]) await server.api("POST", "/machines", { name: `${set}-${n}`, availabilitySet: set, host: "rack-1" });
    await server.listen(`${set}-1`);
  }
  const operation = await server.api("POST", "/maintenance", { target: { host: "rack-1" }, type: "Reboot", durationSeconds: 600 });
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await live(page);
  const lane = `#op-${operation.id}`;
  await shows(page, lane, "0/6 ready");
  assert.equal(await page.locator("#timeline .lane").count(), 1);
  await page.evaluate(() => (window.neverReloaded = true));
  const fold = page.getByRole("link", { name: "Groups of Reboot of host rack-1" });
  const { width, height } = await fold.boundingBox();
  assert.ok(width >= 24 && height >= 24, `the fold is ${width} by ${height} pixels`);
  await fold.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("#timeline .lane.l1").length === 2, null, { timeout: PATIENCE });
  await page.waitForFunction(() => document.activeElement.matches(".fold[aria-expanded=true]"), null, { timeout: PATIENCE });
  await page.getByRole("link", { name: "Machines of red" }).click();
  await page.waitForFunction(() => document.querySelectorAll("#timeline .lane.l2").length === 3, null, { timeout: PATIENCE });
  // The readiness fills the notice, and the impact covers it.
  await live(page);
  await server.api("POST", `/events/${operation.events[0].id}/approve`);
  await page.waitForSelector(`${lane} rect.rd`, { state: "attached", timeout: PATIENCE });
  await shows(page, lane, "1/6 ready");
  // Zoom, sort and filter are in the address too, and going back restores the view.
  await page.locator("#box-timeline").focus();
  await page.keyboard.press("-");
  await page.waitForURL(/span=240/);
  await page.locator("#sort-name").click();
  await page.waitForURL(/sort=name/);
  await page.waitForFunction(() => document.querySelector("#groups .name").textContent === "blue", null, { timeout: PATIENCE });
  assert.equal(await page.locator("#timeline .lane.l2").count(), 3, "the folds are kept");
  await page.goBack();
  await page.waitForFunction(() => !location.search.includes("sort"), null, { timeout: PATIENCE });
  await live(page);
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  await page.reload();
  assert.equal(await page.locator("#timeline .lane.l2").count(), 3, "the address has the folds");
  for (const event of operation.events.slice(1)) await server.api("POST", `/events/${event.id}/approve`);
  await shows(page, "#status", "6 machines down now");
  await page.waitForFunction(() => document.title.startsWith("(6 down)") && document.getElementById("icon").href.endsWith("icon-down.svg"), null, { timeout: PATIENCE });
  assert.equal(await page.locator(`${lane} > .track > rect`).last().getAttribute("class"), "im x-amber", "the impact is drawn last");
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}

export async function aLargeFleetShowsTheFirstRowsAndLinksToTheOthers() {
  const server = await Server.start("--clock", "manual");
  await many(server);
  const { context, page } = await signedIn(server);
  await live(page);
  assert.equal(await page.locator("#timeline .lane").count(), 40);
  assert.equal(await page.locator("#groups tr").count(), 20);
  await page.getByRole("link", { name: `Show all ${SETS + 1}` }).click();
  await page.waitForURL(/\/groups/);
  assert.equal(await page.locator("#groups tr").count(), SETS + 1);
  await page.getByLabel("Filter by name").fill("cache-00");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll("#groups tr").length === 1, null, { timeout: PATIENCE });
  await page.getByRole("link", { name: /No handler/ }).click();
  await shows(page, "#panel-groups .empty", "No matching groups.");
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
  await page.goto(`${server.management}/events/${event}`);
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
  // The line has the time above it, which covers no tick.
  const boxes = await page.$$eval("#now-at rect, #ticks text:not([hidden])", (found) => found.map((element) => element.getBoundingClientRect().toJSON()));
  assert.equal(await page.textContent("#now-at text"), (await page.textContent("#clock")).slice(0, 8));
  assert.ok(boxes.length > 1 && boxes.slice(0, -1).every((tick) => tick.right < boxes.at(-1).left || tick.left > boxes.at(-1).right), JSON.stringify(boxes));
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
  const { context, page } = await signedIn(server);
  await live(page);
  await shows(page, "#panel-start", "forewarn run --vm vm -- ./handler");
  await server.api("DELETE", "/machines/vm");
  await shows(page, "#panel-start", "forewarn vm create web");
  await judged(page, "an empty fleet");
  await server.api("POST", "/machines", { name: "web" });
  await shows(page, "#groups", "web");
  await page.waitForSelector("#panel-start", { state: "hidden", timeout: PATIENCE });
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

export async function theTimeAxisIsHiddenUntilTheScriptHasDrawnIt() {
  const server = await Server.start("--clock", "manual");
  await server.api("POST", "/machines/vm/restart");
  const { context, page } = await signedIn(server);
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route("**/portal.js", async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(server.management + "/", { waitUntil: "commit" });
  await page.waitForSelector("#axis text", { state: "attached", timeout: PATIENCE });
  const visibility = () => page.$eval("#axis text", (text) => getComputedStyle(text).visibility);
  assert.equal(await visibility(), "hidden");
  release();
  await live(page);
  assert.equal(await visibility(), "visible");
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
  await page.locator("#timeline .fold").first().click();
  assert.equal(await page.locator("#timeline .lane.l1").count(), 1);
  await page.getByRole("link", { name: "24 h" }).click();
  assert.equal(await page.locator("#timeline .lane.l1").count(), 1, "the fold is kept");
  assert.ok(await page.locator("#axis text").first().isVisible());
  assert.match(await page.textContent(".zone"), /UTC/);
  await page.getByLabel("Find").fill(`web-${SETS - 1}`);
  await page.keyboard.press("Enter");
  await page.waitForURL(/search/);
  assert.ok(await page.getByRole("link", { name: `web-${SETS - 1}`, exact: true }).first().isVisible());
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
    await picture(page, look, "fleet");
  });
  await server.end();
}
