// The server's time, extrapolated between messages; times in the reader's time zone; countdowns.

const body = document.body;
export const manual = body.dataset.clock === "manual";

let base = Number(body.dataset.now);
let since = performance.now();

export const now = () => (manual ? base : base + performance.now() - since);

export function setNow(ms) {
  base = ms;
  since = performance.now();
}

// The widths of the labels of the current time and of a tick.
const LABEL_PX = 58;
const TICK_PX = 38;

const pad = (number) => String(number).padStart(2, "0");
export const clockTime = (date) => `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;

// The abbreviation of the reader's time zone, such as CET or GMT+9.
export const zoneName = () => {
  const parts = new Intl.DateTimeFormat([], { timeZoneName: "short" }).formatToParts(new Date(now()));
  return parts.find((part) => part.type === "timeZoneName")?.value ?? "UTC";
};

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[data-ms]")) {
    show(time, new Date(Number(time.dataset.ms)));
  }
}

// Ticks of charts that were drawn with times in UTC.
export function localTicks(root = document) {
  for (const tick of root.querySelectorAll("text[data-tick]")) {
    const date = new Date(Number(tick.dataset.tick));
    if (!tick.textContent.includes(":")) tick.dataset.day = "";
    tick.textContent = "day" in tick.dataset ? localDay(date) : clockTime(date).slice(0, 5);
  }
  for (const zone of root.querySelectorAll("[data-zone-name]")) zone.textContent = zoneName();
}

// A tick at midnight UTC is at another time of the day here.
const localDay = (date) => date.toLocaleString([], { weekday: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hour12: false });

function show(time, date) {
  const today = date.toDateString() === new Date(now()).toDateString();
  const day = today ? "" : date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" }) + " ";
  time.textContent = day + ("minutes" in time.dataset ? clockTime(date).slice(0, 5) : clockTime(date));
  time.title = date.toISOString().slice(0, 19).replace("T", " ") + " UTC";
}

// Times relative to now, in previews.
export function timesAhead() {
  for (const time of document.querySelectorAll("time[data-ahead]")) {
    show(time, new Date(Math.ceil((now() + Number(time.dataset.ahead)) / 1000) * 1000));
  }
}

export function countdowns(root = document) {
  for (const count of root.querySelectorAll(".count[data-until]")) {
    const text = left(Number(count.dataset.until));
    if (count.textContent !== text) count.textContent = text;
  }
}

// Shows the current time above its line, and hides the ticks that it would cover.
export function labelNow(label, x, ticks) {
  const [text, width] = [clockTime(new Date(now())), label.ownerSVGElement.clientWidth];
  // The axis of a chart without rows is hidden.
  if (width === 0) return;
  const isInside = x >= 0 && x <= 100;
  label.toggleAttribute("hidden", !isInside);
  const half = (LABEL_PX / 2 / width) * 100;
  const at = Math.min(Math.max(x, half), 100 - half);
  label.setAttribute("x", `${at.toFixed(2)}%`);
  if (label.lastElementChild.textContent !== text) label.lastElementChild.textContent = text;
  const near = half + (TICK_PX / 2 / width) * 100;
  for (const tick of ticks) tick.toggleAttribute("hidden", isInside && Math.abs(parseFloat(tick.getAttribute("x")) - at) < near);
}

// The line of the current time in the chart of a rollout.
export function currentTimes() {
  for (const chart of document.querySelectorAll(".g-now")) {
    const [begin, end] = [Number(chart.dataset.begin), Number(chart.dataset.end)];
    const x = ((now() - begin) / (end - begin)) * 100;
    const line = chart.firstElementChild;
    line.toggleAttribute("hidden", x < 0 || x > 100);
    for (const name of ["x1", "x2"]) line.setAttribute(name, `${x.toFixed(2)}%`);
    const axis = chart.closest(".gantt").querySelector(".g-axis");
    labelNow(axis.querySelector(".now-at"), x, axis.querySelectorAll("[data-tick]"));
  }
}

function left(until) {
  const left = Math.max(0, Math.round((until - now()) / 1000));
  const [days, hours, minutes, seconds] = [Math.floor(left / 86400), Math.floor(left / 3600) % 24, Math.floor(left / 60) % 60, left % 60];
  if (left === 0) return "due";
  if (days > 0) return `in ${days} d ${hours} h`;
  if (hours > 0) return `in ${hours} h ${minutes} min`;
  return minutes > 0 ? `in ${minutes} min ${pad(seconds)} s` : `in ${seconds} s`;
}
