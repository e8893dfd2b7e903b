// Keyboard shortcuts. Single letters work only outside of fields, and can be turned off.

const PAGES = { o: "/", p: "/operations", g: "/groups", h: "/hosts" };
let isGoing = false;

export function shortcuts() {
  const dialog = document.getElementById("keys");
  const off = document.getElementById("keys-off");
  off.checked = localStorage.getItem("keys") === "off";
  off.addEventListener("change", () => localStorage.setItem("keys", off.checked ? "off" : "on"));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea, dialog")) return;
    if (event.key === "Escape") clearSelection();
    else if (!off.checked || event.key === "?") press(event, dialog);
  });
}

function press(event, dialog) {
  const { key } = event;
  if (isGoing && PAGES[key]) location.href = PAGES[key];
  const wasGoing = isGoing;
  isGoing = key === "g" && !wasGoing;
  if (wasGoing) return;
  if (key === "/") {
    event.preventDefault();
    document.getElementById("find").focus();
  } else if (key === "?") dialog.showModal();
  else if (key === "j" || key === "k") step(key === "j" ? 1 : -1);
  else if (key === "x") document.activeElement.closest("tr")?.querySelector("input[type=checkbox]")?.click();
}

// Focuses the main link of the next or previous row.
function step(by) {
  const links = [...document.querySelectorAll(".t tbody .name a, #attention .what a, .lane.op .nm[href]")];
  const row = document.activeElement.closest("tr, li, .lane");
  const at = links.findIndex((link) => row?.contains(link));
  links[Math.min(Math.max(at + by, 0), links.length - 1)]?.focus();
}

function clearSelection() {
  for (const box of document.querySelectorAll("input[form=selection]:checked")) box.click();
}
