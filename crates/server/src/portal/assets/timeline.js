// The picture of time: shapes carry times, and this puts them where those are in the window that is shown.

const axis = document.getElementById("axis");
const zoom = document.getElementById("zoom");
let span = axis ? Number(axis.dataset.span) : 0;
// How far the window is moved, in spans; zero follows the time.
let moved = 0;

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 240, 720, 1440].map((minutes) => minutes * 60000);

export function layout(now, root = document) {
  if (!axis) return;
  const from = now - span / 4 + moved * span;
  const percent = (at) => ((at === "now" ? now : Number(at)) - from) / span * 100;
  const clamp = (value) => Math.min(Math.max(value, -1), 101);
  for (const rect of root.querySelectorAll("rect[data-from]")) {
    const [begin, end] = [clamp(percent(rect.dataset.from)), clamp(percent(rect.dataset.to))];
    rect.setAttribute("x", begin + "%");
    rect.setAttribute("width", Math.max(end - begin, 0.25) + "%");
  }
  for (const line of root.querySelectorAll("line[data-at]")) {
    const x = clamp(percent(line.dataset.at)) + "%";
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
  }
  for (const mark of root.querySelectorAll("circle[data-at]")) mark.setAttribute("cx", clamp(percent(mark.dataset.at)) + "%");
  ticks(from, percent);
}

function ticks(from, percent) {
  const wanted = axis.clientWidth < 420 ? 3 : 7;
  const step = STEPS.find((step) => span / step <= wanted) || STEPS.at(-1);
  // Whole steps of the reader's own day.
  const offset = new Date(from).getTimezoneOffset() * 60000;
  let text = "";
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < from + span; at += step) {
    const x = percent(at).toFixed(2);
    text += `<line x1="${x}%" x2="${x}%" y1="15" y2="20"></line><text x="${x}%" y="12">${label(at, step)}</text>`;
  }
  axis.innerHTML = text;
}

function label(at, step) {
  const shown = step >= 720 * 60000 ? { weekday: "short", day: "numeric", hour: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  return new Date(at).toLocaleString([], { ...shown, hour12: false });
}

export function controls(redraw) {
  if (!axis) return;
  zoom.addEventListener("change", () => {
    span = Number(zoom.value);
    redraw();
  });
  for (const button of document.querySelectorAll("[data-move]")) {
    button.addEventListener("click", () => {
      const by = Number(button.dataset.move);
      moved = by === 0 ? 0 : moved + by / 2;
      redraw();
    });
  }
  addEventListener("resize", redraw);
}
