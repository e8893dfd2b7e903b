// Measures the overview of the portal in Chromium, with a large and a small fleet in turn. Prints one JSON object. Arguments:
// the Node.js packages, then management address, metadata address and process ID of the server of each fleet.

import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, ...words] = process.argv.slice(2);
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");

// A smoke test shows that everything still works; its figures mean nothing.
const SMOKE = Boolean(process.env.FOREWARN_BENCH_SMOKE);
const ROUNDS = SMOKE ? 1 : 7;
const UPDATES = SMOKE ? 3 : 30;
const PREVIEWS = SMOKE ? 1 : 9;
const PATIENCE = 120_000;
// Existing events are this far in the future, so that none starts during the run.
const NOTICE_SECS = 4 * 3600;

// Groups and machines in each, one per host; hosts; rollouts, each over `span` hosts with `parallel` of them announced; operations
// on hosts, and on single machines. In the large fleet these are 12 operations with 503 events.
const SMALL = { groups: 2, each: 25, hosts: 25, rollouts: 0, span: 0, parallel: 0, maintenance: 1, single: 1 };
const LARGE = SMOKE
  ? { groups: 4, each: 10, hosts: 10, rollouts: 1, span: 5, parallel: 2, maintenance: 1, single: 1 }
  : { groups: 100, each: 30, hosts: 150, rollouts: 4, span: 25, parallel: 5, maintenance: 5, single: 3 };

const three = (number) => String(number).padStart(3, "0");
const clock = () => performance.timeOrigin + performance.now();
const median = (numbers) => [...numbers].sort((one, other) => one - other)[Math.floor(numbers.length / 2)];

class Fleet {
  constructor([management, metadata, pid], shape) {
    Object.assign(this, { management: `http://${management}`, metadata: `http://${metadata}`, pid, shape });
  }

  async api(method, path, body = {}) {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(`${this.management}/api/v1${path}`, { method, headers, body: method === "GET" ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${text}`);
    return text ? JSON.parse(text) : null;
  }

  async make() {
    const { groups, each, hosts } = this.shape;
    await this.api("DELETE", "/machines/vm");
    for (let n = 0; n < groups; n++) {
      await this.api("POST", "/availability-sets", { name: `group-${three(n)}` });
      for (let m = 0; m < each; m++) {
        const host = `host-${three((n * each + m) % hosts)}`;
        await this.api("POST", "/machines", { name: `group-${three(n)}-${three(m)}`, availabilitySet: `group-${three(n)}`, host });
      }
      await this.listen(`group-${three(n)}-000`);
    }
    this.machineCount = (await this.machines()).length;
  }

  async schedule() {
    const { groups, each, hosts, rollouts, span, parallel, maintenance, single } = this.shape;
    const notice = { type: "Reboot", noticeSeconds: NOTICE_SECS };
    const block = (first, count) => Array.from({ length: count }, (_, n) => `host-${three(first + n)}`);
    for (let n = 0; n < rollouts; n++) {
      const plan = { hosts: block(n * each, span), parallel, maxUnavailable: each, description: `CHG-${n}` };
      await this.api("POST", "/rollouts", { ...notice, ...plan });
    }
    for (const host of block(hosts - each, maintenance)) await this.api("POST", "/maintenance", { ...notice, target: { host } });
    const free = await this.machinesWithoutEvents();
    for (const machine of free.splice(0, single)) await this.api("POST", "/maintenance", { ...notice, target: { machine } });
    // Machines without an event; the updates affect these.
    this.targets = free.slice(0, UPDATES);
    this.eventCount = (await this.list("/events")).length;
    this.groups = groups;
  }

  // Maintenance of one machine: user operations are limited.
  maintain(n) {
    return this.api("POST", "/maintenance", { type: "Reboot", target: { machine: this.targets[n] } });
  }

  // The expected course of a rollout over all hosts, in milliseconds.
  async preview() {
    const plan = { type: "Reboot", hosts: Array.from({ length: this.shape.hosts }, (_, n) => `host-${three(n)}`), parallel: 5, maxUnavailable: 10 };
    const took = [];
    for (let n = 0; n < PREVIEWS; n++) {
      const begun = clock();
      const { isComplete } = await this.api("POST", "/rollouts/preview", plan);
      if (!isComplete) throw new Error("the rollout is not expected to end");
      took.push(clock() - begun);
    }
    return median(took);
  }

  async machinesWithoutEvents() {
    const busy = new Set((await this.list("/events")).flatMap((event) => event.resources));
    return (await this.machines()).map(({ name }) => name).filter((name) => !busy.has(name));
  }

  machines() {
    return this.list("/machines");
  }

  async list(path) {
    const all = [];
    for (let next = `${path}?limit=1000`; next; ) {
      const page = await this.api("GET", next);
      all.push(...page.value);
      next = page.next ? `${path}?limit=1000&after=${encodeURIComponent(page.next)}` : null;
    }
    return all;
  }

  async listen(name) {
    const answer = await fetch(`${this.metadata}/vm/${name}/metadata/scheduledevents?api-version=2020-07-01`, { headers: { Metadata: "true" } });
    if (!answer.ok) throw new Error(await answer.text());
  }

  // Milliseconds of CPU time, from every thread.
  cpu() {
    const threads = readdirSync(`/proc/${this.pid}/task`);
    const spent = (thread) => Number(readFileSync(`/proc/${this.pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
    return threads.reduce((sum, thread) => sum + spent(thread), 0) / 1e6;
  }
}

// --- measurements ---

async function signedIn(browser, fleet) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(fleet.management + "/");
  await page.click("text=Sign in");
  await page.waitForURL(fleet.management + "/");
  fleet.state = await context.storageState();
  await context.close();
}

const live = (page) => page.waitForSelector('#connection[data-state="live"]', { timeout: PATIENCE });

// A new context has an empty cache.
async function open(browser, fleet, act) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, storageState: fleet.state });
  const page = await context.newPage();
  const result = await act(page);
  await context.close();
  return result;
}

function firstView(browser, fleet) {
  return open(browser, fleet, async (page) => {
    await page.goto(fleet.management + "/", { waitUntil: "load" });
    await live(page);
    return page.evaluate(() => {
      const [navigation] = performance.getEntriesByType("navigation");
      const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
      return { paint, complete: navigation.domComplete, bytes: navigation.encodedBodySize, elements: document.querySelectorAll("*").length };
    });
  });
}

// From the top to the last row of the table of groups.
function scroll(browser, fleet) {
  return open(browser, fleet, async (page) => {
    await page.goto(fleet.management + "/");
    await live(page);
    return page.evaluate(() => {
      const last = () => {
        const row = document.querySelector("#groups > tr:last-child");
        return row && row.getBoundingClientRect().top < innerHeight;
      };
      const begun = performance.now();
      scrollTo(0, document.body.scrollHeight);
      return new Promise((resolve) => {
        const look = () => (last() ? resolve(performance.now() - begun) : requestAnimationFrame(look));
        look();
      });
    });
  });
}

// From the API response to the lane on the page.
function updates(browser, fleet) {
  return open(browser, fleet, async (page) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    let bytes = 0;
    session.on("Network.eventSourceMessageReceived", ({ data }) => (bytes += data.length));
    await page.goto(fleet.management + "/");
    await live(page);
    await page.evaluate(() => {
      window.seen = {};
      new MutationObserver((records) => {
        for (const { addedNodes } of records) {
          for (const { id } of addedNodes) if (id) requestAnimationFrame(() => (window.seen[id] ??= performance.timeOrigin + performance.now()));
        }
      }).observe(document.getElementById("timeline"), { childList: true, subtree: true });
    });
    bytes = 0;
    const [took, before] = [[], fleet.cpu()];
    for (let n = 0; n < UPDATES; n++) {
      const operation = await fleet.maintain(n);
      const answered = clock();
      const id = `op-${operation.id}`;
      const seen = await (await page.waitForFunction((id) => window.seen[id], id, { timeout: PATIENCE, polling: 10 })).jsonValue();
      took.push(Math.max(0, seen - answered));
    }
    const cpu = (fleet.cpu() - before) / UPDATES;
    // The same by reloading the page.
    const begun = clock();
    await page.reload({ waitUntil: "load" });
    await live(page);
    const reload = clock() - begun;
    return { median: median(took), worst: Math.max(...took), bytes_update: bytes / UPDATES, cpu, reload };
  });
}

// The same requests without a viewer, after the earlier ones are canceled.
async function unwatched(fleet) {
  await takeBack(fleet);
  const before = fleet.cpu();
  for (let n = 0; n < UPDATES; n++) await fleet.maintain(n);
  const cpu = (fleet.cpu() - before) / UPDATES;
  await takeBack(fleet);
  return cpu;
}

async function takeBack(fleet) {
  for (let n = 0; n < UPDATES; n++) {
    const { value } = await fleet.api("GET", `/events?machine=${fleet.targets[n]}`);
    for (const { id } of value) await fleet.api("POST", `/events/${id}/cancel`);
  }
}

// --- rounds ---

const fleets = [new Fleet(words.slice(0, 3), LARGE), new Fleet(words.slice(3, 6), SMALL)];
for (const fleet of fleets) {
  const begun = clock();
  await fleet.make();
  // Before anything is scheduled: a rollout does not take hosts of another one.
  fleet.previewed = await fleet.preview();
  await fleet.schedule();
  console.error(`   ${fleet.machineCount} machines in ${fleet.groups} groups, ${fleet.eventCount} events: ${((clock() - begun) / 1000).toFixed(1)} s`);
}
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const figures = [[], []];
  for (const fleet of fleets) await signedIn(browser, fleet);
  for (let round = 0; round <= ROUNDS; round++) {
    for (const turn of round % 2 ? [1, 0] : [0, 1]) {
      const view = await firstView(browser, fleets[turn]);
      const scrolled = await scroll(browser, fleets[turn]);
      // The first round is a warm-up.
      if (round > 0) figures[turn].push({ ...view, scrolled });
    }
    console.error(`   round ${round}`);
  }
  const of = (turn, name) => median(figures[turn].map((figure) => figure[name]));
  const result = [];
  for (const turn of [0, 1]) {
    const update = await updates(browser, fleets[turn]);
    const alone = await unwatched(fleets[turn]);
    const view = Object.fromEntries(["paint", "complete", "bytes", "elements", "scrolled"].map((name) => [name, of(turn, name)]));
    const { machineCount: machines, groups, eventCount: events, previewed: preview } = fleets[turn];
    result.push({ machines, groups, events, preview, ...view, ...update, unwatched: alone });
  }
  console.log(JSON.stringify({ large: result[0], small: result[1] }));
} finally {
  await browser.close();
}
