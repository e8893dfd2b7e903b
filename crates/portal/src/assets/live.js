// One stream of what has changed. It says when it is lost, and comes back by itself.

import { only, place, remove } from "./fragments.js";
import { cut, looks, named } from "./chunks.js";
import { now, clockTime, setNow } from "./time.js";

// The server speaks every ten seconds; longer silence means that it is gone, whatever the socket says.
const SILENCE_MS = 25_000;
const WAIT_MS_MIN = 500;
const WAIT_MS_MAX = 8_000;

const body = document.body;
const connection = document.getElementById("connection");
const stale = document.getElementById("stale");
let wait = WAIT_MS_MIN;
// What the page was drawn from; a stream that begins there need not send it again.
let revision = body.dataset.revision;
if (connection.dataset.state === "connecting") connection.textContent = "connecting";

export function connect(changed) {
  const asked = looks();
  const address = new URLSearchParams(asked);
  address.set("page", body.dataset.page);
  if (revision) address.set("since", revision);
  revision = "";
  const stream = new EventSource("/portal/live?" + address);
  let heard;
  const listen = () => {
    clearTimeout(heard);
    heard = setTimeout(() => again(stream, changed), SILENCE_MS);
  };
  listen();
  stream.onmessage = (event) => {
    listen();
    wait = WAIT_MS_MIN;
    const message = JSON.parse(event.data);
    if (message.stream) named(message.stream, asked.toString());
    else take(message);
    changed();
  };
  stream.onerror = () => {
    clearTimeout(heard);
    again(stream, changed);
  };
}

function take(message) {
  if (message.gone) {
    say("gone", "This is no longer there");
    return;
  }
  say("live", "live");
  if (message.now) setNow(message.now);
  if (message.shelves) cut(message.shelves);
  for (const id of message.drop || []) remove(id);
  for (const fragment of message.put || []) place(fragment);
  if (message.all) only(message.all);
}

function say(state, text) {
  if (state !== "live" && connection.dataset.state === "live") {
    stale.textContent = state === "gone" ? "This is no longer there. What you see is how it was." : `Disconnected at ${clockTime(new Date(now()))}. What you see is of then; the page tries to connect again.`;
  }
  connection.dataset.state = state;
  connection.textContent = text;
  stale.hidden = state === "live" || stale.textContent === "";
}

async function again(stream, changed) {
  stream.close();
  say("lost", "disconnected");
  setTimeout(async () => {
    // A stream does not say why it failed; a session that is over is not worth trying again.
    const answer = await fetch("/portal/session", { cache: "no-store" }).catch(() => null);
    if (answer && answer.status === 401) {
      say("out", "signed out");
      location.reload();
      return;
    }
    connect(changed);
  }, wait);
  wait = Math.min(wait * 2, WAIT_MS_MAX);
}
