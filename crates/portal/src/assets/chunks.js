// Long lists are split into chunks, and only those near the viewport have content. This reports to the stream which chunks
// are near, and which event groups of the timeline are expanded.

// Distance from the viewport at which chunks are filled.
const NEAR = "800px";
// Several chunks often come near at the same time; report them together.
const REPORT_DELAY_MS = 40;

const near = new Set();
const opened = new Set();
const closed = new Set();
let stream = null;
let reported = "";
let timer = null;

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) isIntersecting ? near.add(target.id) : near.delete(target.id);
    reportSoon();
  },
  { rootMargin: NEAR, scrollMargin: NEAR },
);

// An empty chunk contains only a link.
const isFilled = (chunk) => chunk.querySelector(":scope > [id]") !== null;

// The current view, in the format of the server.
export function currentView() {
  // Keep the chunk with the focus, wherever the viewport is.
  const focused = document.activeElement?.closest(".chunk")?.id;
  const chunks = new Set(near);
  if (focused) chunks.add(focused);
  return new URLSearchParams({ chunks: [...chunks].join(" "), opened: [...opened].join(" "), closed: [...closed].join(" ") });
}

export function watchChunks() {
  const all = document.querySelectorAll(".chunk");
  for (const chunk of all) if (isFilled(chunk)) near.add(chunk.id);
  for (const chunk of all) {
    reserveSpace(chunk);
    observer.observe(chunk);
  }
  document.addEventListener("click", toggleGroup);
}

// A new stream starts with the view that it was requested with.
export function setStream(name, view) {
  stream = name;
  reported = view;
  reportSoon();
}

// Adjusts the number of chunks of each list.
export function setChunkCounts(lists) {
  for (const [id, count] of Object.entries(lists)) {
    const list = document.getElementById(id);
    if (!list) continue;
    while (list.children.length > count) {
      near.delete(list.lastElementChild.id);
      observer.unobserve(list.lastElementChild);
      list.lastElementChild.remove();
    }
    while (list.children.length < count) {
      const chunk = document.createElement("div");
      chunk.id = `${id}-${list.children.length}`;
      chunk.className = "chunk";
      chunk.innerHTML = `<p class="more"><a href="#${chunk.id}">More</a></p>`;
      list.append(chunk);
      reserveSpace(chunk);
      observer.observe(chunk);
    }
  }
}

// Called before a fragment is inserted into a chunk.
export function onFilled(chunk) {
  if (!chunk.matches(".chunk")) return;
  chunk.style.minHeight = "";
  const link = chunk.querySelector(":scope > .more a");
  if (link && link === document.activeElement) requestAnimationFrame(() => chunk.querySelector(":scope > [id] :is(a, button)")?.focus());
}

// An empty chunk takes the height of a filled one.
function reserveSpace(chunk) {
  const model = [...chunk.parentElement.children].find(isFilled);
  if (!isFilled(chunk) && model) chunk.style.minHeight = model.offsetHeight + "px";
}

function reportSoon() {
  timer ??= setTimeout(report, REPORT_DELAY_MS);
}

function report() {
  timer = null;
  const view = currentView();
  if (!stream || view.toString() === reported) return;
  reported = view.toString();
  // Chunks that leave the view will be emptied. Fix their height so that the page does not jump.
  const kept = new Set(view.get("chunks").split(" "));
  for (const chunk of document.querySelectorAll(".chunk")) if (!kept.has(chunk.id) && isFilled(chunk)) chunk.style.minHeight = chunk.offsetHeight + "px";
  view.set("stream", stream);
  view.set("csrf", document.querySelector("input[name=csrf]").value);
  // If this fails, the stream is gone, and the next one starts with the view at that time.
  fetch("/portal/view", { method: "POST", body: view }).catch(() => {});
}

function toggleGroup({ target }) {
  const button = target.closest?.("[data-group]");
  if (!button) return;
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  const [to, from] = wasOpen ? [closed, opened] : [opened, closed];
  to.add(button.dataset.group);
  from.delete(button.dataset.group);
  button.setAttribute("aria-expanded", String(!wasOpen));
  report();
}
