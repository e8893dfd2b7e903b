// The entry point. Pages arrive rendered; scripts keep them current and add time zones, themes and tabs.

import { forms, selectionBar } from "./forms.js";
import { shortcuts } from "./keys.js";
import { connect } from "./live.js";
import { softLinks } from "./soft.js";
import { clockTime, countdowns, currentTimes, localTicks, localTimes, now, timesAhead, zoneName } from "./time.js";
import { controls, tickTimeline } from "./timeline.js";

// Confirmations disappear after this time. They stay in the history.
const TOAST_MS = 8_000;

function tick() {
  document.getElementById("clock").textContent = `${clockTime(new Date(now()))} ${zoneName()}`;
  countdowns();
  timesAhead();
  currentTimes();
  tickTimeline();
}

document.getElementById("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const current = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const theme = current === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
});

function tabs() {
  const list = document.querySelector("[role=tablist]");
  if (!list) return;
  list.hidden = false;
  const all = [...list.querySelectorAll("[role=tab]")];
  const show = (tab) => {
    for (const one of all) {
      const selected = one === tab;
      one.setAttribute("aria-selected", String(selected));
      one.tabIndex = selected ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !selected;
    }
  };
  for (const tab of all) {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const next = all[(all.indexOf(tab) + by + all.length) % all.length];
      show(next);
      next.focus();
    });
  }
  const wrong = document.querySelector(".step .wrong");
  show(wrong ? all.find((tab) => wrong.closest(".step").id === tab.getAttribute("aria-controls")) : all[0]);
}

// Prepares the content of the page, also after it was replaced.
function init() {
  localTimes(document);
  localTicks();
  controls();
  tabs();
  forms();
  selectionBar();
  tick();
}

init();
shortcuts();
softLinks(init);
setInterval(tick, 1000);
setTimeout(() => document.getElementById("toast")?.remove(), TOAST_MS);
if (document.getElementById("connection").dataset.state !== "gone") connect(tick);
