// The page of a group: selected machines, the policy, scaling in, the latest model.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged, picture } from "../lib/checks.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

async function withSet() {
  const server = await Server.start("--clock", "manual");
  const terminateNotification = { notBeforeTimeout: "PT7M" };
  const set = await server.api("POST", "/scale-sets", { name: "web", capacity: 4, orchestration: "Uniform", model: { terminateNotification } });
  await server.listen("web_0");
  return { server, here: `${server.management}/groups/${set.id}` };
}

const button = (page, name) => page.getByRole("button", { name, exact: true });

export async function actionsOnSelectedMachinesAreConfirmedFirst() {
  const { server, here } = await withSet();
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await page.goto(here);
  await live(page);
  for (const name of ["web_1", "web_2"]) await page.getByLabel(`Select ${name}`).check();
  // An update of the row keeps the selection.
  await server.api("POST", "/machines/web_1/restart", {});
  await shows(page, "#machines tr:first-child", "Reboot");
  assert.ok(await page.getByLabel("Select web_1").isChecked(), "the selection is lost");
  await button(page, "Delete…").click();
  await shows(page, "h1", "Delete web_1 and web_2?");
  await shows(page, "#panel-confirm", "the capacity of web drops from 4 to 2");
  assert.equal((await server.api("GET", "/scale-sets/web")).capacity, 4);
  await button(page, "Delete").click();
  await page.waitForURL(here);
  await shows(page, "#machines", "Terminate");
  assert.equal((await server.api("GET", "/scale-sets/web")).capacity, 2);
  // An approved deletion waits for the other one; both start together.
  const events = (await server.api("GET", "/events")).value.filter((event) => event.type === "Terminate");
  await page.goto(`${server.management}/events/${events[0].id}`);
  await live(page);
  await page.locator("#do-approve > summary").click();
  await shows(page, "#do-approve", "neither approved nor due");
  await page.locator("#do-approve button").click();
  await shows(page, "#facts", "owner (management)");
  await shows(page, "#facts", "Scheduled");
  await server.api("POST", `/events/${events[1].id}/approve`);
  await shows(page, "#facts", "Completed");
  await page.goto(here);
  await live(page);
  assert.ok(await page.locator(".selbar").isHidden(), "there is nothing to act upon");
  await page.getByLabel("Select web_0").check();
  await shows(page, ".selbar", "1 selected");
  await button(page, "Protect…").click();
  await button(page, "Protect").click();
  await shows(page, "#machines", "protected from scale-in");
  assert.deepEqual(found.filter((text) => !text.includes("422")), []);
  await context.close();
  await server.end();
}

export async function thePolicyTheModelAndScalingIn() {
  const { server, here } = await withSet();
  const { context, page } = await signedIn(server);
  await page.goto(here);
  await live(page);
  // Settings are last and folded.
  assert.deepEqual(await page.$$eval(".panels > section", (panels) => panels.slice(-2).map((panel) => panel.id)), ["panel-manage", "panel-policy"]);
  assert.ok(await page.getByLabel("Instances").isHidden());
  await page.locator("#fold-policy > summary").click();
  await page.getByLabel("Start user-requested restarts immediately").check();
  await button(page, "Change policy").click();
  await page.waitForFunction(() => document.querySelector("#field-reboot")?.defaultChecked, null, { timeout: PATIENCE });
  assert.equal((await server.api("GET", "/scale-sets/web")).policy.approveUserReboot, true);
  const { vmId } = await server.api("GET", "/machines/web_3");
  await page.goto(`${server.management}/machines/${vmId}`);
  await page.locator("#do-restart > summary").click();
  await shows(page, "#do-restart", "The policy approves it: Reboot starts immediately.");
  // Unlike in the Azure portal, an existing scale set can be changed. The page lists instances without the latest model.
  await page.goto(here);
  // A link to a setting opens it.
  await page.getByRole("link", { name: "Scale…" }).click();
  await page.getByLabel("Instances").waitFor();
  assert.ok(await page.$eval("#field-capacity", (field) => field.getBoundingClientRect().top < innerHeight), "the field is on screen");
  await page.getByLabel("Termination delay (minutes)").fill("9");
  await button(page, "Update").click();
  await shows(page, "#manage", "web_0, web_1 and 2 more do not have the latest model yet");
  await page.getByLabel("Select web_0").check();
  await button(page, "Upgrade…").click();
  await shows(page, "#panel-confirm", "changes from 7 minutes to 9 minutes");
  await button(page, "Upgrade").click();
  await shows(page, "#manage", "web_1, web_2 and web_3 do not have the latest model yet");
  await button(page, "Upgrade 3 instances").click();
  await shows(page, "#manage", "Every instance has the latest model.");
  await page.locator("#fold-manage > summary").click();
  await page.getByLabel("Instances").fill("2");
  await button(page, "Scale").click();
  await shows(page, "#panel-confirm", "web_3 and web_2 are deleted. Terminate not before");
  await button(page, "Scale in").click();
  await shows(page, "#machines", "Terminate");
  assert.equal((await server.api("GET", "/scale-sets/web")).capacity, 2);
  await shows(page, "#history", "change scale set web, requested by owner");
  await context.close();
  await server.end();
}

export async function groupsAreReadableInEveryTheme() {
  const { server, here } = await withSet();
  const group = await server.api("POST", "/availability-sets", { name: "db" });
  for (const name of ["db-1", "db-2"]) await server.api("POST", "/machines", { name, availabilitySet: "db" });
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    const at = `${look.colorScheme}, ${look.viewport.width}`;
    await page.goto(`${server.management}/groups/${group.id}`);
    await live(page);
    await page.locator("#do-delete-group > summary").click();
    await judged(page, `an availability set, ${at}`);
    await picture(page, look, "availability-set");
    await page.goto(here);
    await live(page);
    for (const name of ["web_2", "web_3"]) await page.getByLabel(`Select ${name}`).check();
    await button(page, "Delete…").click();
    await shows(page, "h1", "Delete web_2 and web_3?");
    await judged(page, `a confirmation, ${at}`);
    await picture(page, look, "confirm");
  });
  await server.end();
}
