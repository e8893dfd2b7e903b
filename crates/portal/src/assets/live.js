// The stream of changes. Shows when the connection is lost, and reconnects.

import { place, remove, removeExcept } from "./fragments.js";
import { now, clockTime, setNow } from "./time.js";

// The server sends a heartbeat every ten seconds. A longer silence means that it is gone, whatever the socket says.
const SILENCE_MS = 25_000;
const WAIT_MS_MIN = 500;
const WAIT_MS_MAX = 8_000;

const body = document.body;
const connection = document.getElementById("connection");
const stale = document.getElementById("stale");
let wait = WAIT_MS_MIN;
// The revision that the page was rendered from. A stream that starts there does not send it again.
let revision = body.dataset.revision;
if (connection.dataset.state === "connecting") connection.textContent = "connecting";

let current = null;
let changedHook = () => {};

// Starts the stream of the page that is shown now.
export function restart() {
  current?.close();
  revision = body.dataset.revision;
  connect(changedHook);
}

export function connect(changed) {
  changedHook = changed;
  const address = new URLSearchParams({ page: body.dataset.page });
  if (revision) address.set("since", revision);
  revision = "";
  const stream = new EventSource("/portal/live?" + address);
  current = stream;
  let timer;
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => current === stream && reconnect(stream, changed), SILENCE_MS);
  };
  restartTimer();
  stream.onmessage = (event) => {
    restartTimer();
    wait = WAIT_MS_MIN;
    if (current !== stream) return;
    apply(JSON.parse(event.data));
    changed();
  };
  stream.onerror = () => {
    clearTimeout(timer);
    if (current === stream) reconnect(stream, changed);
  };
}

function apply(message) {
  if (message.gone) {
    showState("gone", "no longer exists");
    return;
  }
  showState("live", "live");
  if (message.now) setNow(message.now);
  if (message.down !== undefined) showDown(message.down);
  if (message.outage !== undefined) showOutage(message.outage);
  for (const id of message.drop || []) remove(id);
  for (const fragment of message.put || []) place(fragment);
  if (message.all) removeExcept(message.all);
}

// The title and the icon of the tab show how many machines are down.
function showDown(count) {
  document.title = (count > 0 ? `(${count} down) ` : "") + body.dataset.title;
  const icon = document.getElementById("icon");
  const href = `/portal/assets/${count > 0 ? "icon-down" : "icon"}.svg`;
  if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

// The warning while no server leads.
function showOutage(text) {
  const outage = document.getElementById("outage");
  if (outage.firstElementChild.textContent !== text) outage.firstElementChild.textContent = text;
  outage.hidden = !text;
}

function showState(state, text) {
  if (state !== "live" && connection.dataset.state === "live") {
    stale.textContent = state === "gone" ? "This no longer exists. The page shows its last state." : `Disconnected at ${clockTime(new Date(now()))}. The page shows the state at that time and is reconnecting.`;
  }
  connection.dataset.state = state;
  connection.textContent = text;
  stale.hidden = state === "live" || stale.textContent === "";
}

async function reconnect(stream, changed) {
  stream.close();
  showState("lost", "disconnected");
  setTimeout(async () => {
    if (current !== stream) return;
    // A stream does not report why it failed. If the session has ended, do not retry.
    const answer = await fetch("/portal/session", { cache: "no-store" }).catch(() => null);
    if (answer && answer.status === 401) {
      showState("out", "signed out");
      location.reload();
      return;
    }
    connect(changed);
  }, wait);
  wait = Math.min(wait * 2, WAIT_MS_MAX);
}
