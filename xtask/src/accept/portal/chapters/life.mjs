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
  const event = eventOf(await server.api("POST", "/machines/web/restart", {}));
  const lane = `#lane-${event}`;
  await shows(page, lane, "Scheduled");
  const first = await page.textContent(`${lane} .count`);
  await page.waitForFunction(([selector, first]) => document.querySelector(selector).textContent !== first, [`${lane} .count`, first]);
  assert.match(first, /in \d+:\d\d/);
  server.approve("web", event);
  await shows(page, lane, "In progress");
  await page.waitForSelector(`${lane} circle.approved`, { state: "attached" });
  assert.match(await page.getAttribute(`${lane} .track`, "aria-label"), /approved by machine web/);
  await shows(page, lane, "Completed");

  const canceled = eventOf(await server.api("POST", "/machines/web/redeploy", {}));
  await shows(page, `#lane-${canceled}`, "Scheduled");
  await server.api("POST", `/events/${canceled}/cancel`, {});
  await shows(page, `#lane-${canceled}`, "Canceled");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");

  await server.kill();
  await page.waitForSelector('#connection[data-state="lost"]', { timeout: PATIENCE });
  found.length = 0;
  await server.run();
  await live(page);
  const after = eventOf(await server.api("POST", "/machines/web/restart", {}));
  await shows(page, `#lane-${after}`, "Scheduled");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  assert.deepEqual(found.filter((text) => !text.includes("ERR_")), []);
  await context.close();
  await server.end();
}
