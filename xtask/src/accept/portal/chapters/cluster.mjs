// A cluster of two servers: their page, and the warning on every page while no server leads.

import assert from "node:assert/strict";
import { browser, live, shows } from "../lib/browser.mjs";
import { complaints, readable } from "../lib/checks.mjs";
import { Etcd } from "../lib/etcd.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

async function signedInWithoutToken(server) {
  const context = await browser.newContext({ timezoneId: "UTC" });
  const page = await context.newPage();
  await page.goto(server.management + "/");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL(server.management + "/");
  return { context, page };
}

export async function everyPageWarnsWhileNoServerLeads() {
  const etcd = await Etcd.start();
  const flags = (node) => ["--no-auth", "--cluster", `etcd://${etcd.address}/portal`, "--node", node, "--advertise", (management) => management];
  const first = await Server.start(...flags("east"));
  const second = await Server.start(...flags("west"));
  const { context, page } = await signedInWithoutToken(first);
  const found = [];
  complaints(page, found);
  await page.locator("#more > summary").click();
  await page.getByRole("link", { name: "Cluster", exact: true }).click();
  await shows(page, "h1", "Cluster");
  await live(page);
  await page.evaluate(() => (window.neverReloaded = true));
  await shows(page, "#status", "2 servers");
  for (const node of ["east", "west"]) await shows(page, "#servers", node);
  await shows(page, "#server-east", "this server");
  await shows(page, "#etcd", "Leader");
  await shows(page, "#status", "leads");
  await page.waitForSelector("#outage", { state: "hidden", timeout: PATIENCE });
  const state = await context.storageState();
  await readable(first, state, { cluster: "/cluster" });

  // The warning is on other pages too, and goes away by itself.
  const other = await context.newPage();
  await other.goto(first.management + "/hosts");
  await live(other);
  etcd.stop();
  for (const shown of [page, other]) await shows(shown, "#outage:not([hidden])", "The cluster has no leader.");
  await shows(page, "#status", "No leader");
  etcd.resume();
  for (const shown of [page, other]) await shown.waitForSelector("#outage", { state: "hidden", timeout: PATIENCE });
  await shows(page, "#status", "leads");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  assert.deepEqual(found, []);
  await context.close();
  await first.end();
  await second.end();
  await etcd.end();
}
