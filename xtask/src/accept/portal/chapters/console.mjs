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

// The causes on the overview add up to the numbers of its sentence, which says when.
async function countsAddUp(page) {
  const lists = await page.$$eval("#status .by > div", (lists) =>
    lists.map((list) => [list.querySelector("dt").textContent, [...list.querySelectorAll("dd")].map((entry) => [entry.textContent, Number(entry.querySelector("b").textContent)])]),
  );
  const { "Down now": down, Next: next, "Not ready": unready } = Object.fromEntries(lists);
  const sum = (entries) => entries.reduce((sum, [, machines]) => sum + machines, 0);
  const deleted = next.filter(([text]) => text.includes("Deletion"));
  const later = `${sum(deleted)} machines are deleted at 02:54. ${sum(next) - sum(deleted)} more go down at 03:00`;
  await shows(page, "#status .say", `${sum(down)} machines down now. ${later}`);
  await shows(page, "#status .by", "Hardware failure on host r02-n06");
  assert.ok(sum(unready) > 0 && sum(unready) <= sum(next), JSON.stringify(lists));
  await shows(page, "#attention-host-r03-n04", "no operation: needs action");
}

export async function everyPageOfTheConsoleIsReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T02:00:00Z");
  const pages = await night(server, LONG);
  const { context, page } = await signedIn(server);
  await countsAddUp(page);
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
  await shows(page, "#status", "2 of 2 approvals missing: db-6 and queue-6");
  await shows(page, "#missing", "No handler, not notified.");
  await page.evaluate(() => (window.neverReloaded = true));
  await server.api("POST", `/events/${operation.events.find((event) => event.machines?.includes("db-6"))?.id ?? operation.events[0].id}/approve`);
  await shows(page, "#status", "1 of 2 approvals missing");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");
  await page.locator("#do-approve-operation > summary").click();
  await shows(page, "#do-approve-operation", "starts now");
  await button(page, "Approve all").click();
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
