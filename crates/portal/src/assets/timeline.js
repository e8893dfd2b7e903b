// Lays out the timeline. Shapes carry times; this computes their positions in the visible window. The window stands still while
// the line of the current time moves through it, and moves on by a quarter when the line has reached the second half.

import { labelNow, now, zoneName } from "./time.js";

let axis = null;
let zoom = null;
let present = null;
let span = 0;
// Offset of the window, in spans. Zero follows the current time.
let moved = 0;
// Start of the window that the page is laid out for.
let from = NaN;

const MINUTE = 60_000;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 720, 1440, 2880].map((minutes) => minutes * MINUTE);

const percent = (at) => Math.min(Math.max((((at === "now" ? now() : Number(at)) - from) / span) * 100, -1), 101);

function begin() {
  const step = span / 4;
  return Math.floor((now() - step) / step) * step + moved * span;
}

// Runs every second: moves the line of the current time and the bars that end there.
export function tickTimeline() {
  if (!axis) return;
  if (begin() !== from) redraw();
  const x = percent("now");
  for (const name of ["x1", "x2"]) present.setAttribute(name, x + "%");
  labelNow(document.getElementById("now-at"), x, axis.querySelectorAll("#ticks text"));
  for (const rect of document.querySelectorAll('.track rect[data-to="now"]')) bar(rect);
}

function redraw() {
  from = begin();
  layout(document);
  ticks();
}

export function layout(root) {
  if (!axis || Number.isNaN(from)) return;
  for (const rect of root.querySelectorAll("rect[data-from]")) bar(rect);
  for (const line of root.querySelectorAll("line[data-at]")) {
    const x = percent(line.dataset.at) + "%";
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }
  for (const text of root.querySelectorAll("text[data-at]")) text.setAttribute("x", percent(text.dataset.at) + "%");
  for (const mark of root.querySelectorAll("circle[data-at]")) mark.setAttribute("cx", percent(mark.dataset.at) + "%");
}

function bar(rect) {
  const [begin, end] = [percent(rect.dataset.from), percent(rect.dataset.to)];
  rect.setAttribute("x", begin + "%");
  rect.setAttribute("width", Math.max(end - begin, 0.25) + "%");
}

function ticks() {
  const wanted = axis.clientWidth < 420 ? 3 : 7;
  const step = STEPS.find((step) => span / step <= wanted) || STEPS.at(-1);
  // Ticks at round times in the reader's time zone.
  const offset = new Date(from).getTimezoneOffset() * MINUTE;
  let text = "";
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < from + span; at += step) {
    const x = percent(at).toFixed(2);
    text += `<line x1="${x}%" x2="${x}%" y1="15" y2="20"></line><text x="${x}%" y="12">${label(at, step)}</text>`;
  }
  document.getElementById("ticks").innerHTML = text;
  axis.dataset.ready = "";
  document.getElementById("zone").textContent = zoneName();
}

function label(at, step) {
  const format = step >= 720 * MINUTE ? { weekday: "short", day: "numeric", hour: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  return new Date(at).toLocaleString([], { ...format, hour12: false });
}

// --- controls ---

function move(by) {
  moved = by === 0 ? 0 : moved + by / 4;
  tickTimeline();
}

// Zooms by one step. The line of the current time stays in place while the window follows it.
function scale(by) {
  const at = Math.min(Math.max(zoom.selectedIndex + by, 0), zoom.options.length - 1);
  zoom.selectedIndex = at;
  selectSpan();
}

function selectSpan() {
  const before = span;
  span = Number(zoom.value);
  moved = (moved * before) / span;
  tickTimeline();
}

const KEYS = {
  ArrowLeft: () => move(-1),
  ArrowRight: () => move(1),
  "+": () => scale(-1),
  "=": () => scale(-1),
  "-": () => scale(1),
  0: () => move(0),
};

// Finds the timeline of the page, which may have been replaced. Its controls are either links, or buttons beside a list of spans.
export function controls() {
  axis = document.getElementById("axis");
  zoom = document.getElementById("zoom");
  present = document.getElementById("present");
  from = NaN;
  if (!axis) return;
  span = Number(axis.dataset.span);
  moved = Number(axis.dataset.moved) / 4;
  zoom?.addEventListener("change", selectSpan);
  for (const button of document.querySelectorAll("[data-move]")) button.addEventListener("click", () => move(Number(button.dataset.move)));
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => scale(Number(button.dataset.zoom)));
  document.getElementById("panel-timeline").addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === zoom) return;
    const key = event.key === "=" ? "+" : event.key;
    const link = document.querySelector(`#panel-timeline a[data-key="${CSS.escape(key)}"]`);
    const act = link ? () => link.click() : zoom && KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  tips();
}

addEventListener("resize", () => {
  if (!axis) return;
  ticks();
  tickTimeline();
});

// --- details of a lane, in a tooltip that stays within the window ---

function tips() {
  document.querySelector(".tip")?.remove();
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  const show = ({ target }) => {
    const facts = target.closest?.(".track")?.parentElement.querySelector(".facts");
    if (!facts) return;
    tip.replaceChildren(facts.cloneNode(true));
    tip.hidden = false;
    placeBeside(tip, target.closest(".track").getBoundingClientRect());
  };
  const hide = () => (tip.hidden = true);
  const panel = document.getElementById("panel-timeline");
  for (const kind of ["pointerover", "focusin"]) panel.addEventListener(kind, show);
  for (const kind of ["pointerout", "focusout"]) panel.addEventListener(kind, hide);
  addEventListener("scroll", hide, { capture: true, passive: true });
  panel.addEventListener("keydown", (event) => event.key === "Escape" && hide());
}

function placeBeside(tip, lane) {
  const { width, height } = tip.getBoundingClientRect();
  const gap = 8;
  const below = lane.bottom + gap + height <= innerHeight;
  const x = Math.min(lane.left + lane.width / 3, innerWidth - width - gap);
  tip.style.left = Math.max(gap, x) + "px";
  tip.style.top = Math.max(gap, below ? lane.bottom + gap : lane.top - height - gap) + "px";
}
