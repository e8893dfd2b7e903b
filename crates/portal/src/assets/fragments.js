// Inserts fragments into their lists, in sort order, and replaces earlier versions.

import { countdowns, localTicks, localTimes } from "./time.js";
import { layout } from "./timeline.js";

export function place({ list, id, sort, html }) {
  const template = document.createElement("template");
  template.innerHTML = html.trim();
  const fresh = template.content.firstElementChild;
  const old = document.getElementById(id);
  const home = document.getElementById(list);
  localTimes(fresh);
  localTicks(fresh);
  countdowns(fresh);
  layout(fresh);
  if (!home) {
    old?.remove();
    return;
  }
  if (old?.parentElement === home) {
    replace(old, fresh, sort);
    return;
  }
  old?.remove();
  home.insertBefore(fresh, follower(home, fresh, sort));
}

// The element that the new one comes before. Searches from the end, where long lists usually grow.
function follower(home, fresh, sort) {
  let next = null;
  for (let child = home.lastElementChild; child; child = child.previousElementSibling) {
    if (child === fresh) continue;
    if ((child.dataset.sort || "") <= sort) break;
    next = child;
  }
  return next;
}

// Replaces an element. Keeps open details, the focus and what was typed.
function replace(old, fresh, sort) {
  const typed = [...old.querySelectorAll("input, select, textarea")].filter((field) => field.name && field.type !== "hidden");
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  if (old.matches("details[open]")) fresh.open = true;
  for (const open of old.querySelectorAll("details[open][id]")) fresh.querySelector("#" + CSS.escape(open.id))?.setAttribute("open", "");
  for (const field of typed) {
    const isCheckable = field.type === "radio" || field.type === "checkbox";
    const changed = isCheckable ? field.checked !== field.defaultChecked : field.tagName !== "SELECT" && field.value !== field.defaultValue;
    const successor = [...fresh.querySelectorAll(`[name="${CSS.escape(field.name)}"]`)].find((one) => !isCheckable || one.value === field.value);
    if (changed && successor) isCheckable ? (successor.checked = field.checked) : (successor.value = field.value);
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

// Removes all fragments except these.
export function removeExcept(ids) {
  const known = new Set(ids);
  for (const child of document.querySelectorAll(".list > [id]")) if (!known.has(child.id)) child.remove();
}
