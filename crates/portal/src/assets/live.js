// The stream of changes. Shows when the connection is lost, and reconnects.

import { place, remove, removeExcept } from "./fragments.js";
import { currentView, setChunkCounts, setStream } from "./chunks.js";
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

export function connect(changed) {
  const view = currentView();
  const address = new URLSearchParams(view);
  address.set("page", body.dataset.page);
  if (revision) address.set("since", revision);
  revision = "";
  const stream = new EventSource("/portal/live?" + address);
  let timer;
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => reconnect(stream, changed), SILENCE_MS);
  };
  restartTimer();
  stream.onmessage = (event) => {
    restartTimer();
    wait = WAIT_MS_MIN;
    const message = JSON.parse(event.data);
    if (message.stream) setStream(message.stream, view.toString());
    else apply(message);
    changed();
  };
  stream.onerror = () => {
    clearTimeout(timer);
    reconnect(stream, changed);
  };
}

function apply(message) {
  if (message.gone) {
    showState("gone", "no longer exists");
    return;
  }
  showState("live", "live");
  if (message.now) setNow(message.now);
  if (message.chunks) setChunkCounts(message.chunks);
  for (const id of message.drop || []) remove(id);
  for (const fragment of message.put || []) place(fragment);
  if (message.all) removeExcept(message.all);
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
