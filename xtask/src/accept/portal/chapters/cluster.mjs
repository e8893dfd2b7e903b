// A cluster of two servers: their page, the warning on every page while no server leads, and actions at the follower.

import assert from "node:assert/strict";
import { browser, live, shows } from "../lib/browser.mjs";
import { complaints, readable } from "../lib/checks.mjs";
import { Etcd } from "../lib/etcd.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const flagsOf = (etcd, node) => ["--no-auth", "--cluster", `etcd://${etcd.address}/portal`, "--node", node, "--advertise", (management) => management];

// Waits until a server has current data and this role.
async function hasRole(server, role) {
  for (const end = Date.now() + PATIENCE; ; await new Promise((resolve) => setTimeout(resolve, 50))) {
    const answer = await fetch(server.management + "/healthz/ready");
    const report = await answer.json();
    if (answer.ok && report.role === role) return;
    assert.ok(Date.now() < end, `${server.management} is not the ${role}: ${JSON.stringify(report)}`);
  }
}

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
  const first = await Server.start(...flagsOf(etcd, "east"));
  const second = await Server.start(...flagsOf(etcd, "west"));
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

export async function actionsAtAFollowerReachEveryServer() {
  const etcd = await Etcd.start();
  const leader = await Server.start(...flagsOf(etcd, "east"));
  await hasRole(leader, "leader");
  const follower = await Server.start(...flagsOf(etcd, "west"));
  await hasRole(follower, "follower");
  const { context, page } = await signedInWithoutToken(follower);
  const found = [];
  complaints(page, found);
  await page.goto(follower.management + "/scale-sets/add");
  await live(page);
  await page.getByLabel("Name").fill("web");
  await page.getByRole("button", { name: "Review + create" }).click();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.waitForURL(/\/groups\/\d+/);
  const group = page.url();
  follower.curl("web_0");
  await live(page);
  await page.getByLabel("Select web_0").check();
  await page.getByRole("button", { name: "Restart…", exact: true }).click();
  await page.getByRole("button", { name: "Restart", exact: true }).click();
  await page.waitForURL(group);
  await shows(page, "#machines", "Reboot");
  const [event] = JSON.parse(leader.curl("web_0")).Events;
  assert.equal(event.EventType, "Reboot");

  // A page at the leader follows an approval that a guest sends to the follower.
  const other = await context.newPage();
  await other.goto(`${leader.management}/events/${event.EventId}`);
  await live(other);
  await page.goto(`${follower.management}/events/${event.EventId}`);
  await live(page);
  follower.approve("web_0", event.EventId);
  for (const shown of [page, other]) await shows(shown, "#facts", "In progress");
  assert.deepEqual(found, []);
  await context.close();
  await follower.end();
  await leader.end();
  await etcd.end();
}
