// Links that change only the view of a page (sort, filter, zoom, fold) replace its content without a full load. They are ordinary
// links without JavaScript.

import { restart } from "./live.js";

let refresh = () => {};

// `init` prepares new content: times, countdowns, positions.
export function softLinks(init) {
  refresh = init;
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-soft]");
    if (!link || event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    follow(link.href, link.id, true);
  });
  addEventListener("popstate", () => follow(location.href, null, false));
}

async function follow(href, focus, isNew) {
  const answer = await fetch(href, { cache: "no-store", headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer || !answer.ok) {
    location.href = href;
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [fresh, scroll] = [page.getElementById("main"), scrollY];
  document.getElementById("main").replaceWith(document.adoptNode(fresh));
  for (const name of ["page", "revision", "now", "title"]) document.body.dataset[name] = page.body.dataset[name];
  if (isNew) history.pushState(null, "", href);
  refresh();
  restart();
  scrollTo(0, scroll);
  if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
}
