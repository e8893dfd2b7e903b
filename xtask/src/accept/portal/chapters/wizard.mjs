// Creating a scale set with the steps of the Azure portal.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { inEveryLook, judged, picture } from "../lib/checks.mjs";
import { Server } from "../lib/server.mjs";

export async function theStepsCreateAScaleSet() {
  const server = await Server.start();
  const { context, page } = await signedIn(server);
  await page.click("nav >> text=More");
  await page.click("nav >> text=Scale sets");
  await page.click("main >> text=Add");
  await page.getByLabel("Name").fill("web");
  await page.getByRole("tab", { name: "Management" }).click();
  const ending = page.getByRole("group", { name: "Instance termination notification" });
  assert.ok(await page.getByLabel("Termination delay (minutes)").isDisabled(), "the delay has no effect while the notification is off");
  await ending.getByLabel("On").check();
  await page.getByLabel("Termination delay (minutes)").fill("16");
  await page.getByRole("button", { name: "Review + create" }).click();
  await shows(page, "#wrong-delay", "from 5 to 15");
  await page.getByLabel("Termination delay (minutes)").fill("7");
  await page.getByRole("button", { name: "Review + create" }).click();
  await shows(page, "main", "On, 7 minutes");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.waitForURL(/\/groups\/\d+/);
  const set = await server.api("GET", "/scale-sets/web");
  assert.equal(set.model.terminateNotification.notBeforeTimeout, "PT7M");
  await page.locator("#fold-manage > summary").click();
  await page.getByLabel("Termination delay (minutes)").fill("9");
  await page.getByRole("button", { name: "Update" }).click();
  await page.getByRole("button", { name: "Upgrade 2 instances" }).click();
  await shows(page, "#manage", "Every instance has the latest model.");
  assert.equal((await server.api("GET", "/machines/web_0")).terminateNotification.notBeforeTimeout, "PT9M");
  await context.close();
  await server.end();
}

export async function theStepsAreReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual");
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    const at = `${look.colorScheme}, ${look.viewport.width}`;
    await page.goto(server.management + "/scale-sets/add");
    await live(page);
    await page.getByLabel("Name").fill("web");
    await page.getByLabel("Priority").selectOption("Spot");
    await page.getByRole("tab", { name: "Management" }).click();
    await page.getByRole("group", { name: "Instance termination notification" }).getByLabel("On").check();
    await judged(page, `the tab Management, ${at}`);
    await picture(page, look, "add-scale-set-management");
    await page.getByRole("button", { name: "Review + create" }).click();
    await shows(page, "#wrong-notification", "Spot instances cannot have a terminate notification");
    await judged(page, `a step with errors, ${at}`);
    await page.getByRole("tab", { name: "Basics" }).click();
    assert.equal(await page.getByLabel("Priority").inputValue(), "Spot");
    await page.getByLabel("Priority").selectOption("Regular");
    await page.getByRole("button", { name: "Review + create" }).click();
    await shows(page, "h2", "Review + create");
    await live(page);
    await judged(page, `the review, ${at}`);
    await picture(page, look, "add-scale-set-review");
  });
  await server.end();
}
