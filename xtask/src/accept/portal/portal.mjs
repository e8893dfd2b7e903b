// The portal as a person uses it: signs in, watches an event from its appearance to its end on one open page, follows the
// steps of the wizard, sees the server go and come back. Nothing sleeps: everything waits for what must come.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import assert from "node:assert/strict";

const [modules, program, pictures] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(join(modules, "axe-core/axe.min.js"), "utf8");
const PATIENCE = 60_000;

// --- a server ---

function freePort() {
  return new Promise((resolve) => {
    const socket = createServer().listen(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}

class Server {
  static async start(...flags) {
    const server = new Server();
    server.data = mkdtempSync(join(tmpdir(), "forewarn-portal-"));
    server.ports = [await freePort(), await freePort()];
    server.flags = flags;
    await server.run();
    return server;
  }

  async run() {
    const [metadata, management] = this.ports.map((port) => `127.0.0.1:${port}`);
    this.metadata = `http://${metadata}`;
    this.management = `http://${management}`;
    const words = ["--pdeathsig", "KILL", "--", program, "serve", "--data", join(this.data, "data"), "--metadata", metadata];
    words.push("--management", management, "--management-tls", "off", ...this.flags);
    this.child = spawn("setpriv", words, { stdio: ["ignore", "pipe", "ignore"] });
    let said = "";
    await new Promise((resolve, reject) => {
      this.child.stdout.on("data", (data) => (said += data).includes("try ") && resolve());
      this.child.on("exit", () => reject(new Error("forewarn did not start: " + said)));
    });
    this.link = said.match(/^portal +(\S+)$/m)[1];
    this.token = readFileSync(join(this.data, "data/token"), "utf8").trim();
  }

  kill() {
    const gone = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill("SIGKILL");
    return gone;
  }

  async end() {
    await this.kill();
    rmSync(this.data, { recursive: true });
  }

  async api(method, path, body) {
    const headers = { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" };
    const answer = await fetch(`${this.management}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${text}`);
    return text ? JSON.parse(text) : null;
  }

  // A client that knows nothing of us.
  curl(machine, ...words) {
    const url = `${this.metadata}/vm/${machine}/metadata/scheduledevents?api-version=2020-07-01`;
    return execFileSync("curl", ["-q", "-sS", "--fail", "--noproxy", "*", "-H", "Metadata:true", ...words, url], { encoding: "utf8" });
  }

  approve(machine, event) {
    this.curl(machine, "-d", JSON.stringify({ StartRequests: [{ EventId: event }] }));
  }
}

const eventOf = (operation) => operation.events[0].id;

// --- a browser ---

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

async function signedIn(server, link = server.link) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(link);
  await page.waitForURL(server.management + "/");
  return { context, page };
}

function complaints(page, found) {
  page.on("pageerror", (error) => found.push(error.message));
  page.on("console", (message) => message.type() === "error" && found.push(message.text()));
  page.on("request", (request) => new URL(request.url()).hostname === "127.0.0.1" || found.push("left the machine: " + request.url()));
}

const live = (page) => page.waitForSelector('#connection[data-state="live"]', { timeout: PATIENCE });
const shows = (page, selector, text) =>
  page.waitForFunction(([selector, text]) => document.querySelector(selector)?.textContent.includes(text), [selector, text], { timeout: PATIENCE });

// --- what must hold ---

async function anEventLivesOnTheOpenPage() {
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
  await shows(page, lane, "Started");
  await page.waitForSelector(`${lane} circle.approved`, { state: "attached" });
  assert.match(await page.getAttribute(`${lane} .track`, "aria-label"), /approved by machine web/);
  await shows(page, lane, "Completed");

  const cancelled = eventOf(await server.api("POST", "/machines/web/redeploy", {}));
  await shows(page, `#lane-${cancelled}`, "Scheduled");
  await server.api("POST", `/events/${cancelled}/cancel`, {});
  await shows(page, `#lane-${cancelled}`, "Canceled");
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

async function thePolicyAndTheFormsHold() {
  const server = await Server.start();
  const { context, page } = await signedIn(server);
  const again = await context.newPage();
  await again.goto(server.link);
  await shows(again, "[role=alert]", "used already");
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.injected = true";
    document.body.append(script);
  });
  assert.equal(await page.evaluate(() => window.injected), undefined, "an inline script ran");
  const status = await page.evaluate(() => fetch("/portal/act", { method: "POST", body: new URLSearchParams({ act: "advance" }) }).then((answer) => answer.status));
  assert.equal(status, 403);
  assert.equal(await page.evaluate(() => document.cookie), "", "scripts can read the cookie");
  await page.click("text=Sign out");
  await shows(page, "main", "forewarn portal");
  assert.equal((await page.goto(server.management + "/")).status(), 401);
  await context.close();
  await server.end();
}

async function theStepsEndInAScaleSet() {
  const server = await Server.start();
  const { context, page } = await signedIn(server);
  await page.click("nav >> text=Scale sets");
  await page.click("main >> text=Add");
  await page.getByLabel("Name").fill("web");
  await page.getByRole("tab", { name: "Management" }).click();
  const ending = page.getByRole("group", { name: "Instance termination notification" });
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
  await page.getByLabel("Termination delay (minutes)").fill("9");
  await page.getByRole("button", { name: "Update" }).click();
  await page.getByRole("button", { name: "Upgrade 2 instances" }).click();
  await shows(page, "#manage", "Every instance has the latest model.");
  assert.equal((await server.api("GET", "/machines/web_0")).terminateNotification.notBeforeTimeout, "PT9M");
  await context.close();
  await server.end();
}

// A fleet that is worth a picture, on a clock that stands still.
async function fleet(server) {
  const post = (path, body = {}) => server.api("POST", path, body);
  const terminateNotification = { notBeforeTimeout: "PT7M" };
  const web = await post("/scale-sets", { name: "web", capacity: 8, orchestration: "Uniform", model: { terminateNotification } });
  await post("/scale-sets", { name: "workers", capacity: 60, orchestration: "Flexible", model: { priority: "Spot" } });
  await post("/availability-sets", { name: "db" });
  for (const number of [1, 2, 3]) await post("/machines", { name: `db-${number}`, availabilitySet: "db", host: "rack-4" });
  for (const machine of ["web_0", "db-1"]) server.curl(machine);
  const started = eventOf(await post("/machines/web_3/restart"));
  await post("/clock/advance", { seconds: 240 });
  const event = eventOf(await post("/machines/web_1/redeploy"));
  server.approve("web_0", started);
  await post("/clock/advance", { seconds: 120 });
  await post("/maintenance", { target: { host: "rack-4" }, type: "Freeze" });
  await post("/maintenance", { target: { group: "web" }, type: "Reboot", description: "Firmware" });
  await post("/clock/advance", { seconds: 150 });
  for (let polls = 0; polls < 4; polls++) {
    server.curl("web_1");
    await post("/clock/advance", { seconds: 1 });
  }
  await post("/faults", { fault: { kind: "Status", status: 503 }, count: 3 });
  await post("/scenario-runs", { scenario: "eviction" });
  const { vmId } = await server.api("GET", "/machines/web_1");
  return { overview: "/", machine: `/machines/${vmId}`, group: `/groups/${web.id}`, event: `/events/${event}`, "scale-sets": "/scale-sets", "add-scale-set": "/scale-sets/add", maintenance: "/maintenance", "test-kit": "/test-kit" };
}

async function everyPageIsReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual");
  const pages = await fleet(server);
  const { context, page } = await signedIn(server);
  const state = await context.storageState();
  const signIn = await browser.newPage();
  await signIn.goto(server.management + "/");
  await judged(signIn, "sign-in");
  await context.close();
  const found = [];
  for (const [colorScheme, width, height] of [["light", 1100, 800], ["dark", 1100, 800], ["light", 390, 844], ["dark", 390, 844]]) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height }, storageState: state, timezoneId: "UTC" });
    const page = await context.newPage();
    complaints(page, found);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(server.management + path);
      await live(page);
      await judged(page, `${name}, ${colorScheme}, ${width}`);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${name} is ${over} pixels wider than ${width}`);
      const file = `${name}-${width < 500 ? "phone-" : ""}${colorScheme}.png`;
      if (pictures && (width > 500 || name === "overview")) await page.screenshot({ path: join(pictures, file) });
    }
    await context.close();
  }
  assert.deepEqual(found, []);
  await server.end();
}

// The judge is put in from outside: the policy lets no page load it.
async function judged(page, name) {
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe });
  const serious = `axe.run().then((result) => JSON.stringify(result.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => one.id + ": " + one.nodes.map((node) => node.html.slice(0, 120)).join(" | "))))`;
  const answer = await session.send("Runtime.evaluate", { expression: serious, awaitPromise: true, returnByValue: true });
  assert.deepEqual(JSON.parse(answer.result.value), [], name);
}

try {
  for (const run of [anEventLivesOnTheOpenPage, thePolicyAndTheFormsHold, theStepsEndInAScaleSet, everyPageIsReadableInEveryTheme]) {
    await run();
    console.error(`   · ${run.name}`);
  }
} finally {
  await browser.close();
}
