// Every page in both themes, at desktop and phone size; screenshots.

import { signedIn } from "../lib/browser.mjs";
import { inEveryLook, judged, picture, readable } from "../lib/checks.mjs";
import { fleet } from "../lib/fleet.mjs";
import { Server } from "../lib/server.mjs";

export async function everyPageIsReadableInEveryTheme() {
  const server = await Server.start("--clock", "manual");
  const pages = await fleet(server);
  const { context } = await signedIn(server);
  const state = await context.storageState();
  await context.close();
  await readable(server, state, pages);
  await server.end();
}

export async function theSignInPageIsReadableInEveryTheme() {
  const server = await Server.start();
  await inEveryLook(undefined, async (page, look) => {
    await page.goto(server.management + "/");
    await judged(page, `sign-in, ${look.colorScheme}, ${look.viewport.width}`);
    await picture(page, look, "sign-in");
  });
  await server.end();
}
