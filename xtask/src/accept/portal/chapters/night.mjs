// A night of maintenance on 20 hosts: planned from the page of hosts, run on the manual clock, paused, resumed, with a host that fails,
// and stopped.

import assert from "node:assert/strict";
import { live, shows, signedIn } from "../lib/browser.mjs";
import { complaints, judged } from "../lib/checks.mjs";
import { Server } from "../lib/server.mjs";
import { PATIENCE } from "../lib/words.mjs";

const HOSTS = 20;

const two = (number) => String(number).padStart(2, "0");
const button = (page, name) => page.getByRole("button", { name, exact: true });

async function fleet() {
  const server = await Server.start("--clock", "manual", "--clock-start", "2026-03-01T20:00:00Z");
  for (const group of ["db", "web"]) await server.api("POST", "/availability-sets", { name: group, updateDomains: 5 });
  for (let n = 1; n <= HOSTS; n++) {
    for (const group of ["db", "web"]) await server.api("POST", "/machines", { name: `${group}-${two(n)}`, availabilitySet: group, host: `rack-${two(n)}` });
  }
  for (const name of ["db-01", "web-01"]) await server.listen(name);
  return server;
}

// Confirms the action of a button that opens a preview.
async function act(page, name, label) {
  await page.locator(`#do-${name} > summary`).click();
  await page.locator(`#confirm-do-${name}`).click();
  await shows(page, "#toast", label);
  await live(page);
}

export async function aNightOfMaintenanceOnTwentyHosts() {
  const server = await fleet();
  const { context, page } = await signedIn(server, { timezoneId: "UTC" });
  const found = [];
  complaints(page, found);
  const advance = (seconds) => server.api("POST", "/clock/advance", { seconds });

  // Planned from the table of hosts.
  await page.goto(server.management + "/hosts?sort=name");
  await live(page);
  await page.getByLabel("Select all hosts").check();
  await shows(page, ".selbar", "20 selected · 40 machines");
  await button(page, "Plan rollout").click();
  await page.waitForURL(/rollouts\/plan/);
  await page.getByRole("radio", { name: /^Reboot/ }).check();
  await page.getByLabel("Ticket").fill("CHG-20188");
  await page.getByLabel("Description").fill("Microcode");
  await page.getByLabel("In parallel").fill("2");
  await page.getByLabel("Pause between").fill("5m");
  await page.getByLabel("Window", { exact: true }).fill("22:00-06:00");
  await page.getByLabel("Failures to tolerate").fill("4");
  await page.getByLabel("Notice", { exact: true }).fill("soon");
  await button(page, "Preview").click();
  await shows(page, "#wrong-notice", "such as 90s");
  assert.equal(await page.getByLabel("Ticket").inputValue(), "CHG-20188", "the form is kept");
  await page.getByLabel("Notice", { exact: true }).fill("");
  await button(page, "Preview").click();
  await page.waitForFunction((hosts) => document.querySelectorAll(".g-lane").length === hosts, HOSTS, { timeout: PATIENCE });
  assert.ok((await page.locator(".wave").count()) >= HOSTS / 2, "waves of two hosts");
  await shows(page, "#panel-capacity", "floor 16");
  await judged(page, "the plan of a night");
  assert.deepEqual((await server.api("GET", "/rollouts")).value, [], "a preview schedules nothing");
  await button(page, "Schedule 20 hosts").click();
  await page.waitForURL(/rollouts\/[0-9a-f-]{36}$/);
  await shows(page, "#toast", "Scheduled a rollout with 20 steps.");
  await live(page);
  await page.evaluate(() => (window.neverReloaded = true));
  await page.waitForFunction((hosts) => document.querySelectorAll("#rollout-progress .g-lane.g-expected").length === hosts, HOSTS, { timeout: PATIENCE });
  const [rollout] = (await server.api("GET", "/rollouts")).value;
  const steps = (state) => page.waitForFunction(([state]) => [...document.querySelectorAll("#steps tr")].some((row) => row.textContent.includes(state)), [state], { timeout: PATIENCE });

  // Run: the first events are announced when the window opens.
  await shows(page, "#status", "next step announced at 22:00:00, when the window opens");
  await advance(2 * 3600 + 1);
  await steps("Waiting for approval");
  await shows(page, "#status", "approvals missing from");
  await advance(900);
  await shows(page, "#steps", "down");
  await advance(600);
  await shows(page, "#steps", "Finished");
  await shows(page, "#history", "step ended");
  await page.waitForSelector("#rollout-progress .g-lane.g-done", { state: "attached", timeout: PATIENCE });
  await shows(page, ".waves > div:first-child", "Wave 1 2 of 2 ended");
  assert.equal(await page.locator(".waves > div:first-child .p-ok").count(), 2);
  assert.equal(await page.textContent(".g-axis .now-at text"), (await page.textContent("#clock")).slice(0, 8), "the time is above its line");
  assert.ok(await page.evaluate(() => window.neverReloaded), "the page was reloaded");

  // Paused: nothing more starts. The checkbox cancels what is scheduled.
  await page.locator("#do-pause-rollout > summary").click();
  await shows(page, "#do-pause-rollout", "No further step starts.");
  await page.getByLabel("Cancel scheduled events too").check();
  await page.locator("#confirm-do-pause-rollout").click();
  await shows(page, "#toast", "Paused rollout");
  await shows(page, "#status", "Paused");
  const ended = async () => (await server.api("GET", `/rollouts/${rollout.id}`)).steps.filter((step) => step.ended).length;
  await advance(1800);
  const before = await ended();
  await advance(1800);
  assert.equal(await ended(), before, "a paused rollout starts nothing");

  // Resumed, and one host fails while its machines are down.
  await live(page);
  await act(page, "resume-rollout", "Resumed rollout");
  await advance(1);
  const current = async () => (await server.api("GET", `/rollouts/${rollout.id}`)).steps.find((step) => step.state === "InProgress");
  const host = (await current()).host;
  await advance(901);
  await server.api("POST", `/hosts/${host}/fence`);
  await shows(page, "#steps tr:first-child", host);
  await shows(page, "#steps tr:first-child", "Failed");
  assert.ok(await page.locator("#steps tr:first-child.pin").isVisible(), "failures are pinned on top");
  await shows(page, "#rollout-progress .g-wave:first-child", host);
  await page.locator("#sort-step").click();
  await page.waitForURL(/sort=step/);
  await shows(page, "#steps tr:first-child", host);
  await page.goto(server.management + "/");
  await live(page);
  await shows(page, "#status", "1 host failed or unreachable");
  await shows(page, "#status", `Host ${host} is off`);
  await shows(page, "#attention", `Host ${host} is off`);
  await page.goto(`${server.management}/rollouts/${rollout.id}`);
  await live(page);
  await judged(page, "a rollout with a failure");

  // Stopped: events that are scheduled are canceled, and the steps that have not begun are skipped.
  await act(page, "stop-rollout", "Stopped rollout");
  await shows(page, "#status", "Stopped by owner");
  await advance(7200);
  assert.equal((await server.api("GET", "/events")).value.filter((event) => event.status === "Scheduled").length, 0);
  // Ended steps are folded. The failed host can be planned again, with the same rules.
  await shows(page, "#steps-ended", "canceled");
  await page.locator("#fold-ended").click();
  await page.waitForURL(/steps=ended/);
  await shows(page, "#steps", "Canceled");
  await page.getByRole("link", { name: "Plan 1 failed step again" }).click();
  await page.waitForURL(/rollouts\/plan/);
  assert.equal(await page.getByLabel("Hosts", { exact: true }).inputValue(), host);
  assert.equal(await page.getByLabel("Pause between").inputValue(), "5m");
  assert.deepEqual(found, []);
  await context.close();
  await server.end();
}
