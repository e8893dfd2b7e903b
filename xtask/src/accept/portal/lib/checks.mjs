// Checks for every page: no errors, no requests to other sites, no serious axe-core violations, no horizontal scrolling; and
// screenshots.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { browser, live } from "./browser.mjs";
import { modules, pictures } from "./words.mjs";

const axe = readFileSync(join(modules, "axe-core/axe.min.js"), "utf8");

// Both themes, at desktop and phone size.
const LOOKS = [
  { colorScheme: "light", viewport: { width: 1100, height: 800 } },
  { colorScheme: "dark", viewport: { width: 1100, height: 800 } },
  { colorScheme: "light", viewport: { width: 390, height: 844 } },
  { colorScheme: "dark", viewport: { width: 390, height: 844 } },
];

export function complaints(page, found) {
  page.on("pageerror", (error) => found.push(error.message));
  page.on("console", (message) => message.type() === "error" && found.push(message.text()));
  page.on("request", (request) => new URL(request.url()).hostname === "127.0.0.1" || found.push("left the machine: " + request.url()));
}

// Checks these pages, `{ name: path }`, in every look, with the session in `state`. Takes screenshots at desktop size, and at
// phone size of those in `small`.
export async function readable(server, state, pages, small = []) {
  const found = [];
  await inEveryLook(state, async (page, look) => {
    complaints(page, found);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(server.management + path);
      await live(page);
      await judged(page, `${name}, ${look.colorScheme}, ${look.viewport.width}`);
      await picture(page, look, name, small);
    }
  });
  assert.deepEqual(found, []);
}

export async function inEveryLook(state, act) {
  for (const look of LOOKS) {
    const context = await browser.newContext({ ...look, storageState: state, timezoneId: "UTC" });
    await act(await context.newPage(), look);
    await context.close();
  }
}

export async function picture(page, { colorScheme, viewport }, name, small = []) {
  const isPhone = viewport.width < 500;
  if (!pictures || (isPhone && !small.includes(name))) return;
  await page.screenshot({ path: join(pictures, `${name}-${isPhone ? "phone-" : ""}${colorScheme}.png`) });
}

// axe-core is injected through the debugger, because the content security policy blocks scripts from elsewhere.
export async function judged(page, name) {
  const session = await page.context().newCDPSession(page);
  await session.send("Runtime.evaluate", { expression: axe });
  const serious = `axe.run().then((result) => JSON.stringify(result.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => one.id + ": " + one.nodes.map((node) => node.html.slice(0, 120)).join(" | "))))`;
  const answer = await session.send("Runtime.evaluate", { expression: serious, awaitPromise: true, returnByValue: true });
  assert.deepEqual(JSON.parse(answer.result.value), [], name);
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(over <= 0, `${name} is ${over} pixels too wide`);
}
