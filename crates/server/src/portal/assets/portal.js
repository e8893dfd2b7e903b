// Keeps a page current: one stream of the fragments that changed, the time, and what only a browser knows (zone, theme).

import { forms } from "./forms.js";
import { controls, layout } from "./timeline.js";

const body = document.body;
const connection = document.getElementById("connection");
const manual = body.dataset.clock === "manual";

// The server's time, carried on by our own clock between messages.
let base = Number(body.dataset.now);
let since = performance.now();
const now = () => (manual ? base : base + performance.now() - since);

function setNow(ms) {
  base = ms;
  since = performance.now();
}

// --- times ---

const pad = (number) => String(number).padStart(2, "0");
const clockTime = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;

function localTimes(root) {
  for (const time of root.querySelectorAll("time[data-ms]")) {
    const date = new Date(Number(time.dataset.ms));
    const today = date.toDateString() === new Date(now()).toDateString();
    const day = today ? "" : date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" }) + " ";
    time.textContent = day + clockTime(date);
    time.title = date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  }
}

// Times that would be, were it decided now.
function timesAhead() {
  for (const time of document.querySelectorAll("time[data-ahead]")) {
    const date = new Date(Math.ceil((now() + Number(time.dataset.ahead)) / 1000) * 1000);
    time.textContent = clockTime(date);
    time.title = date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  }
}

function countdowns() {
  for (const count of document.querySelectorAll(".count[data-until]")) {
    const left = Math.max(0, Math.round((Number(count.dataset.until) - now()) / 1000));
    const [days, hours, minutes, seconds] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60, left % 60];
    count.textContent = left === 0 ? "due" : days > 0 ? `in ${days} d ${hours} h` : hours > 0 ? `in ${hours} h ${minutes} min` : `in ${minutes}:${pad(seconds)}`;
  }
}

function tick() {
  const clock = document.getElementById("clock");
  clock.textContent = clockTime(new Date(now())) + (manual ? " (manual)" : "");
  countdowns();
  timesAhead();
  layout(now());
}

// --- fragments ---

function place({ list, id, sort, html }) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  const fresh = template.content.firstElementChild;
  const old = document.getElementById(id);
  localTimes(fresh);
  if (old) {
    keep(old, fresh);
    return;
  }
  const home = document.getElementById(list);
  if (!home) return;
  const next = [...home.children].find((child) => (child.dataset.sort || "") > sort);
  home.insertBefore(fresh, next || null);
}

// What the reader has open, focused or typed stays as it is.
function keep(old, fresh) {
  if (old.outerHTML === fresh.outerHTML) return;
  const typed = [...old.querySelectorAll("input, select, textarea")].filter((field) => field.name && field.type !== "hidden");
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  if (old.matches("details[open]")) fresh.open = true;
  for (const open of old.querySelectorAll("details[open][id]")) fresh.querySelector("#" + CSS.escape(open.id))?.setAttribute("open", "");
  for (const field of typed) {
    const ticks = field.type === "radio" || field.type === "checkbox";
    const changed = ticks ? field.checked !== field.defaultChecked : field.tagName !== "SELECT" && field.value !== field.defaultValue;
    const again = [...fresh.querySelectorAll(`[name="${CSS.escape(field.name)}"]`)].find((one) => !ticks || one.value === field.value);
    if (changed && again) ticks ? (again.checked = field.checked) : (again.value = field.value);
  }
  const path = focus && focus.id ? "#" + CSS.escape(focus.id) : focus ? focus.tagName.toLowerCase() : null;
  const moved = (old.dataset.sort || "") !== (fresh.dataset.sort || "");
  const home = old.parentElement;
  old.replaceWith(fresh);
  if (moved) {
    const next = [...home.children].find((child) => child !== fresh && (child.dataset.sort || "") > fresh.dataset.sort);
    home.insertBefore(fresh, next || null);
  }
  if (path) (fresh.matches(path) ? fresh : fresh.querySelector(path))?.focus({ preventScroll: true });
}

function take(message) {
  if (message.gone) {
    say("gone", "This is no longer there");
    return;
  }
  if (message.now) setNow(message.now);
  for (const fragment of message.put || []) place(fragment);
  for (const id of message.drop || []) document.getElementById(id)?.remove();
  if (message.all) {
    const known = new Set(message.all);
    for (const child of document.querySelectorAll(".list > [id]")) if (!known.has(child.id)) child.remove();
  }
  tick();
}

// --- the stream ---

function say(state, text) {
  connection.dataset.state = state;
  connection.textContent = text;
}

let wait = 500;

function connect() {
  const stream = new EventSource("/portal/live?page=" + encodeURIComponent(body.dataset.page));
  let heard;
  // The server speaks every ten seconds; silence means that it is gone, whatever the socket says.
  const listen = () => {
    clearTimeout(heard);
    heard = setTimeout(() => again(stream), 25000);
  };
  listen();
  stream.onmessage = (event) => {
    listen();
    wait = 500;
    say("live", "live");
    take(JSON.parse(event.data));
  };
  stream.onerror = () => {
    clearTimeout(heard);
    again(stream);
  };
}

async function again(stream) {
  stream.close();
  say("lost", "disconnected, trying again");
  setTimeout(async () => {
    // A stream does not say why it failed; a session that is over is not worth trying again.
    const answer = await fetch("/portal/live?page=none", { cache: "no-store" }).catch(() => null);
    if (answer && answer.status === 401) {
      say("out", "signed out");
      location.reload();
      return;
    }
    connect();
  }, wait);
  wait = Math.min(wait * 2, 8000);
}

// --- theme and tabs ---

const remembered = localStorage.getItem("theme");
if (remembered) document.documentElement.dataset.theme = remembered;

document.getElementById("theme").addEventListener("click", () => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const shown = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const theme = shown === "dark" ? "light" : "dark";
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
      const chosen = one === tab;
      one.setAttribute("aria-selected", String(chosen));
      one.tabIndex = chosen ? 0 : -1;
      document.getElementById(one.getAttribute("aria-controls")).hidden = !chosen;
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

localTimes(document);
controls(() => layout(now()));
tabs();
forms();
tick();
setInterval(tick, 1000);
connect();
