// Open pages follow an event that a third-party handler approves.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints } from "../lib/checks.mjs";
import { Handler } from "../lib/handler.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

export async function aThirdPartyHandlerApprovesARestart() {
  const server = await Server.start("--notice-scale", "20");
  await server.api("POST", "/machines", { name: "node-a", addresses: [] });
  const handler = new Handler(server, "node-a");
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  const machine = await server.api("GET", "/machines/node-a");
  await page.goto(`${server.management}/machines/${machine.vmId}`);
  await live(page);
  await shows(page, "#requests", "Handler connected");
  // The action is previewed.
  await page.locator("#do-restart > summary").click();
  await shows(page, "#do-restart", "No other machine shares the document; the event starts earlier if it approves");
  const overview = await context.newPage();
  complaints(overview, found);
  await overview.goto(server.management + "/");
  await live(overview);
  await page.locator("#do-restart button").click();
  await page.waitForURL(/\/events\//);
  await live(page);
  const event = page.url().split("/").pop();
  for (const open of [page, overview]) await open.evaluate(() => (window.neverReloaded = true));
  await shows(page, "#facts", "Scheduled");
  const count = () => page.textContent("#facts .count");
  const first = await count();
  assert.match(first, /in (\d+ min \d\d|\d+) s/);
  await page.waitForFunction((first) => document.querySelector("#facts .count").textContent !== first, first, { timeout: PATIENCE });
  const { operations } = await server.api("GET", `/events/${event}`);
  const lane = `#op-${operations[0]}`;
  await shows(overview, lane, "0/1 ready");
  handler.monitor();
  assert.equal(handler.state(), "STOPPING");
  assert.equal((await server.api("GET", `/events/${event}`)).status, "Scheduled", "not before the node is drained");
  handler.drain();
  handler.monitor();
  assert.equal(handler.state(), "IN_EVENT");
  await shows(page, "#facts", "In progress");
  await shows(page, "#facts", "machine node-a");
  await shows(overview, "#status", "1 machine down now");
  await shows(page, "#facts", "Completed");
  await shows(page, "#history", "ended: completed");
  await overview.waitForSelector(`${lane}.finished`, { state: "attached", timeout: PATIENCE });
  handler.monitor();
  assert.equal(handler.state(), "AVAILABLE");
  for (const open of [page, overview]) assert.ok(await open.evaluate(() => window.neverReloaded), "a page was reloaded");
  assert.deepEqual(found, []);
  await context.close();
  handler.end();
  await server.end();
}
