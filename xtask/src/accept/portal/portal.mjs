// The portal as a person uses it. Runs every chapter of `chapters`, in the order of their names; FOREWARN_ACCEPT_ONLY
// names those that are wanted. What a chapter exports are its tests, named by what they show. Nothing sleeps: everything
// waits for what must come.

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
