// Fragments that came: each is put where it belongs, in place of the one that it follows.

import { countdowns, localTimes } from "./time.js";
import { layout } from "./timeline.js";
import { filled } from "./chunks.js";

export function place({ list, id, sort, html }) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  const fresh = template.content.firstElementChild;
  const old = document.getElementById(id);
  const home = document.getElementById(list);
  localTimes(fresh);
  countdowns(fresh);
  layout(fresh);
  if (!home) {
    old?.remove();
    return;
  }
  if (old?.parentElement === home) {
    keep(old, fresh, sort);
    return;
  }
  old?.remove();
  filled(home);
  home.insertBefore(fresh, follower(home, fresh, sort));
}

// Lists are long and mostly grow at their end.
function follower(home, fresh, sort) {
  let next = null;
  for (let child = home.lastElementChild; child; child = child.previousElementSibling) {
    if (child === fresh) continue;
    if ((child.dataset.sort || "") <= sort) break;
    next = child;
  }
  return next;
}

// What the reader has open, focused or typed stays as it is.
function keep(old, fresh, sort) {
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
  if (moved) home.insertBefore(fresh, follower(home, fresh, sort));
  if (path) (fresh.matches(path) ? fresh : fresh.querySelector(path))?.focus({ preventScroll: true });
}

export function remove(id) {
  document.getElementById(id)?.remove();
}

// What there is at all: the rest goes.
export function only(ids) {
  const known = new Set(ids);
  for (const child of document.querySelectorAll(".list > [id]:not(.shelf), .shelf > [id]")) if (!known.has(child.id)) child.remove();
}
