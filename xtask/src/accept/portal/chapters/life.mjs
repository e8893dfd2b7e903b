// The lifecycle of an event on an open page, across a restart of the server.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints } from "../lib/checks.mjs";
import { Server, eventOf } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

export async function theOpenPageFollowsAnEvent() {
  const server = await Server.start("--notice-scale", "20");
  await server.api("POST", "/machines", { name: "web" });
  server.curl("web");
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await live(page);
  await page.evaluate(() => (window.neverReloaded = true));
  const restart = await server.api("POST", "/machines/web/restart", {});
  const lane = `#op-${restart.id}`;
  await shows(page, lane, "0/1 ready");
  const count = "#groups .count";
  const first = await page.textContent(count);
  await page.waitForFunction(([selector, first]) => document.querySelector(selector).textContent !== first, [count, first]);
  assert.match(first, /in (\d+ min \d\d|\d+) s/);
  server.approve("web", eventOf(restart));
  await shows(page, "#status", "1 machine down now");
  assert.match(await page.getAttribute(`${lane} .track`, "aria-label"), /in progress since/);
  await page.waitForSelector(`${lane}.finished`, { state: "attached", timeout: PATIENCE });
  await shows(page, "#status", "No machines are down");

  const redeploy = await server.api("POST", "/machines/web/redeploy", {});
  await shows(page, `#op-${redeploy.id}`, "0/1 ready");
  await server.api("POST", `/events/${eventOf(redeploy)}/cancel`, {});
  await page.waitForSelector(`#op-${redeploy.id}.finished`, { state: "attached", timeout: PATIENCE });
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");

  await server.kill();
  await page.waitForSelector('#connection[data-state="lost"]', { timeout: PATIENCE });
  found.length = 0;
  await server.run();
  await live(page);
  const after = await server.api("POST", "/machines/web/restart", {});
  await shows(page, `#op-${after.id}`, "ready");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  assert.deepEqual(found.filter((text) => !text.includes("ERR_")), []);
  await context.close();
  await server.end();
}
