// Runs the chapters in `chapters`, in the order of their names, or those listed in FOREWARN_ACCEPT_ONLY. The exports of a chapter
// are its tests. Nothing sleeps: tests wait for conditions.

import { readdirSync } from "node:fs";
import { close } from "./lib/browser.mjs";

const directory = new URL("chapters/", import.meta.url);
const only = process.env.FOREWARN_ACCEPT_ONLY?.split(",");

try {
  for (const file of readdirSync(directory).sort()) {
    const chapter = file.replace(/\.mjs$/, "");
    if (only && !only.includes(chapter)) continue;
    for (const [name, test] of Object.entries(await import(new URL(file, directory)))) {
      await test();
      console.error(`   · ${chapter}: ${name}`);
    }
  }
} finally {
  await close();
}
