// Debian's Chromium, and signed-in visitors.

import { createRequire } from "node:module";
import { join } from "node:path";
import { PATIENCE, modules } from "./words.mjs";

const require = createRequire(join(modules, "x.js"));
const { chromium } = require("playwright-core");

export const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

export const close = () => browser.close();

// Opens the sign-in link in a new window with these options.
export async function signedIn(server, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.goto(server.link);
  await page.waitForURL(server.management + "/");
  return { context, page };
}

export const live = (page) => page.waitForSelector('#connection[data-state="live"]', { timeout: PATIENCE });

export const shows = (page, selector, text) =>
  page.waitForFunction(([selector, text]) => document.querySelector(selector)?.textContent.includes(text), [selector, text], { timeout: PATIENCE });
