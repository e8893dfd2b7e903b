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
  { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  { colorScheme: "light", viewport: { width: 390, height: 844 } },
  { colorScheme: "dark", viewport: { width: 390, height: 844 } },
];

// 1440 by 640.
const PICTURE_PIXELS = 921_600;

export function complaints(page, found) {
  page.on("pageerror", (error) => found.push(error.message));
  page.on("console", (message) => message.type() === "error" && found.push(message.text()));
  page.on("request", (request) => new URL(request.url()).hostname === "127.0.0.1" || found.push("left the machine: " + request.url()));
}

// Checks these pages, `{ name: path }`, in every look, with the session in `state`, and takes their screenshots.
export async function readable(server, state, pages) {
  const found = [];
  await inEveryLook(state, async (page, look) => {
    complaints(page, found);
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(server.management + path);
      await live(page);
      await judged(page, `${name}, ${look.colorScheme}, ${look.viewport.width}`);
      await picture(page, look, name);
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

// Takes a screenshot if the page about the portal shows it. The lower part is left out, so that files stay small.
export async function picture(page, { colorScheme, viewport: { width, height } }, name) {
  if (!pictures) return;
  const file = `${name}-${width < 500 ? "phone-" : ""}${colorScheme}.png`;
  const isShown = readFileSync(join(pictures, "../portal.md"), "utf8").includes(`(portal/${file})`);
  const clip = { x: 0, y: 0, width, height: Math.min(height, Math.ceil(PICTURE_PIXELS / width)) };
  if (isShown) await page.screenshot({ path: join(pictures, file), clip });
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
