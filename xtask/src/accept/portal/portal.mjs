// Runs the chapters in `chapters`, in the order of their names, or those listed in FOREWARN_ACCEPT_ONLY. The exports of a chapter
// are its tests. All of them run, even if one fails. Nothing sleeps: tests wait for conditions.

import { readdirSync } from "node:fs";
import { close } from "./lib/browser.mjs";

const directory = new URL("chapters/", import.meta.url);
const only = process.env.FOREWARN_ACCEPT_ONLY?.split(",");
const failed = [];

for (const file of readdirSync(directory).sort()) {
  const chapter = file.replace(/\.mjs$/, "");
  if (only && !only.includes(chapter)) continue;
  for (const [name, test] of Object.entries(await import(new URL(file, directory)))) {
    try {
      await test();
      console.error(`   · ${chapter}: ${name}`);
    } catch (problem) {
      console.error(problem);
      failed.push(`${chapter}: ${name}`);
    }
  }
}
await close();
for (const name of failed) console.error(`   failed: ${name}`);
process.exit(failed.length > 0 ? 1 : 0);
