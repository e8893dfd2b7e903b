// Signing in and out, the content security policy, forms without a token.

import assert from "node:assert/strict";
import { shows, signedIn } from "../lib/browser.mjs";
import { Server } from "../lib/server.mjs";

export async function sessionsAndFormsAreProtected() {
  const server = await Server.start();
  const { context, page } = await signedIn(server);
  const again = await context.newPage();
  await again.goto(server.link);
  await shows(again, "[role=alert]", "already been used");
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
