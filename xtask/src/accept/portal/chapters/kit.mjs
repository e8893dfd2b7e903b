// The test kit: a scenario from a file, faults with the fields of their kind, the clock.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, inEveryLook, judged } from "../lib/checks.mjs";
import { Server } from "../lib/server.mjs";

const SCENARIO = `title = "My own"

[[machine]]
name = "web_0"

[[step]]
poll = "web_0"

[[step]]
restart = "web_0"
as = "restart"

[[step]]
wait = "20m"
until = "started"
of = "restart"
`;

const button = (page, name) => page.getByRole("button", { name, exact: true });

export async function aCustomScenarioIsCorrectedAndRun() {
  const server = await Server.start("--clock", "manual");
  const file = join(server.data, "mine.toml");
  writeFileSync(file, SCENARIO.replace("restart = ", "restrat = "));
  const { context, page } = await signedIn(server);
  const found = [];
  complaints(page, found);
  await page.click("nav >> text=More");
  await page.click("nav >> text=Test kit");
  await live(page);
  await page.getByLabel("Load from file").setInputFiles(file);
  await page.waitForFunction(() => document.getElementById("field-text").value.includes("restrat"));
  await button(page, "Run scenario").click();
  await shows(page, "#wrong-text", "Line 10, column 1: unknown key 'restrat'. Did you mean 'restart'?");
  await live(page);
  const text = page.getByLabel("File", { exact: true });
  assert.match(await text.inputValue(), /restrat = "web_0"/, "the input is lost");
  await text.fill(SCENARIO);
  await button(page, "Run scenario").click();
  await shows(page, "#runs", "My own");
  await shows(page, "#runs li:nth-child(3)", "done");
  await shows(page, "#runs", "passed");
  // Start from a built-in scenario.
  await page.getByRole("link", { name: "Edit a copy of eviction" }).click();
  await shows(page, "#field-text", "Eviction of a Spot machine");
  assert.deepEqual(found.filter((text) => !text.includes("422")), []);
  await context.close();
  await server.end();
}

export async function faultsHaveTheFieldsOfTheirKind() {
  const server = await Server.start("--clock", "manual");
  const { context, page } = await signedIn(server);
  await page.goto(server.management + "/test-kit");
  await live(page);
  const form = page.locator("#form-fault");
  assert.ok(await form.getByLabel("Retry-After").isVisible());
  assert.ok(await form.getByLabel("Delay", { exact: true }).isHidden());
  await form.getByLabel("Respond with").selectOption("Delay");
  assert.ok(await form.getByLabel("Retry-After").isHidden());
  await form.getByLabel("Delay", { exact: true }).fill("400s");
  await form.getByLabel("Share (%)").fill("50");
  await button(page, "Add fault").click();
  await shows(page, "#wrong-delay", "at most 300 seconds");
  await page.waitForFunction(() => document.activeElement.id === "field-delay");
  assert.equal(await form.getByLabel("Share (%)").inputValue(), "50");
  await form.getByLabel("Delay", { exact: true }).fill("250ms");
  await button(page, "Add fault").click();
  await shows(page, "#faults", "Delay 250ms, 50% of requests for all machines");
  assert.ok(await page.locator("#fault-1").evaluate((row) => row.getBoundingClientRect().bottom <= innerHeight), "the new fault is outside the viewport");
  const [fault] = (await server.api("GET", "/faults")).value;
  assert.deepEqual([fault.fault.delaySeconds, fault.percent], [0.25, 50]);
  await button(page, "Clear fault 1").click();
  await shows(page, "#panel-faults", "No faults. All requests get normal responses.");
  await context.close();
  await server.end();
}

export async function theClockAdvancesByASpanAndToTheNextDeadline() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T12:00:00Z");
  await server.api("POST", "/machines", { name: "web" });
  await server.listen("web");
  await server.api("POST", "/machines/web/restart", {});
  const { context, page } = await signedIn(server, { timezoneId: "UTC" });
  await page.goto(server.management + "/test-kit");
  await live(page);
  await shows(page, "#clock-panel", "Next deadline 12:15:00");
  await page.getByLabel("Advance by").fill("soon");
  await button(page, "Advance").click();
  await shows(page, "#wrong-by", "such as 90s");
  await page.getByLabel("Advance by").fill("5m");
  await button(page, "Advance").click();
  await shows(page, "#clock-panel", "Manual clock: 12:05:00");
  await button(page, "Advance to next deadline").click();
  await shows(page, "#clock-panel", "Manual clock: 12:15:00");
  assert.equal((await server.api("GET", "/events")).value[0].status, "Started");
  await context.close();
  await server.end();
}

export async function formsWithErrorsAreReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual");
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await inEveryLook(state, async (page, look) => {
    await page.goto(server.management + "/test-kit");
    await live(page);
    await button(page, "Run scenario").click();
    await shows(page, "#wrong-text", "Line 1, column 1");
    await judged(page, `a scenario with errors, ${look.colorScheme}, ${look.viewport.width}`);
  });
  await server.end();
}
