// Long lists are cut into stretches, and only those near the window have content: the stream is told which these are, and
// which groups of the time line were opened or closed.

// How far from the window a stretch is filled already.
const NEAR = "800px";
// Several stretches come near together.
const TOGETHER_MS = 40;

const near = new Set();
const opened = new Set();
const closed = new Set();
let stream = null;
let told = "";
let waiting = null;

const observer = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) isIntersecting ? near.add(target.id) : near.delete(target.id);
    tellSoon();
  },
  { rootMargin: NEAR, scrollMargin: NEAR },
);

// Beside the link that stands for its content.
const isFilled = (shelf) => shelf.querySelector(":scope > [id]") !== null;

// What is looked at, as the server reads it.
export function looks() {
  // What has the focus stays, wherever the window is.
  const held = document.activeElement?.closest(".shelf")?.id;
  const shelves = new Set(near);
  if (held) shelves.add(held);
  return new URLSearchParams({ shelves: [...shelves].join(" "), opened: [...opened].join(" "), closed: [...closed].join(" ") });
}

export function watchShelves() {
  const all = document.querySelectorAll(".shelf");
  for (const shelf of all) if (isFilled(shelf)) near.add(shelf.id);
  for (const shelf of all) {
    reserve(shelf);
    observer.observe(shelf);
  }
  document.addEventListener("click", turn);
}

// The stream begins with what was looked at when it was asked for.
export function named(name, asked) {
  stream = name;
  told = asked;
  tellSoon();
}

// How many stretches each list has.
export function cut(lists) {
  for (const [id, count] of Object.entries(lists)) {
    const list = document.getElementById(id);
    if (!list) continue;
    while (list.children.length > count) {
      near.delete(list.lastElementChild.id);
      observer.unobserve(list.lastElementChild);
      list.lastElementChild.remove();
    }
    while (list.children.length < count) {
      const shelf = document.createElement("div");
      shelf.id = `${id}-${list.children.length}`;
      shelf.className = "shelf";
      shelf.innerHTML = `<p class="more"><a href="#${shelf.id}">More</a></p>`;
      list.append(shelf);
      reserve(shelf);
      observer.observe(shelf);
    }
  }
}

// Something is put into it.
export function filled(shelf) {
  if (!shelf.matches(".shelf")) return;
  shelf.style.minHeight = "";
  const link = shelf.querySelector(":scope > .more a");
  if (link && link === document.activeElement) requestAnimationFrame(() => shelf.querySelector(":scope > [id] :is(a, button)")?.focus());
}

// What has no content yet takes the room of one that has.
function reserve(shelf) {
  const model = [...shelf.parentElement.children].find(isFilled);
  if (!isFilled(shelf) && model) shelf.style.minHeight = model.offsetHeight + "px";
}

function tellSoon() {
  waiting ??= setTimeout(tell, TOGETHER_MS);
}

function tell() {
  waiting = null;
  const fields = looks();
  if (!stream || fields.toString() === told) return;
  told = fields.toString();
  // What is no longer looked at will be emptied; the page must not jump.
  const kept = new Set(fields.get("shelves").split(" "));
  for (const shelf of document.querySelectorAll(".shelf")) if (!kept.has(shelf.id) && isFilled(shelf)) shelf.style.minHeight = shelf.offsetHeight + "px";
  fields.set("stream", stream);
  fields.set("csrf", document.querySelector("input[name=csrf]").value);
  // When it does not arrive the stream is gone, and the next one begins with what is looked at then.
  fetch("/portal/look", { method: "POST", body: fields }).catch(() => {});
}

function turn({ target }) {
  const button = target.closest?.("[data-group]");
  if (!button) return;
  const wasOpen = button.getAttribute("aria-expanded") === "true";
  const [to, from] = wasOpen ? [closed, opened] : [opened, closed];
  to.add(button.dataset.group);
  from.delete(button.dataset.group);
  button.setAttribute("aria-expanded", String(!wasOpen));
  tell();
}
