// Shows the progress of a running call as its events arrive (GET /api/stream/CALL), while its page is visible.
//
// The server renders it, because it escapes invisible characters.  live.js shows the result, unless the call was refused.

const KINDS = ["ToolCallQueued", "ToolCallStarted", "Installing", "ToolCallProgress", "ToolCallLog", "Question", "QuestionClosed", "ToolCallCompleted", "ToolCallError", "ApprovalRequired"];
const PAUSE = 300; // ms in which further events cause no request of their own
const find = (page) => page?.querySelector("[data-follow]");
let stream = null;
let planned = null;
let asked = 0; // counts requests of the page, because the answer to an earlier one may arrive after a later one

async function refresh() {
  planned = null;
  const request = ++asked;
  const answer = await fetch(location.href, { headers: { "HX-Request": "true" } }).catch(() => null); // messages stay for the user
  const page = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
  if (request !== asked) return;
  const [old, fresh] = [find(document), find(page)];
  if (old && fresh) old.replaceWith(fresh);
  else if (old && page) location.reload();
}

function receive(event) {
  const place = find(document);
  if (!place) return leave();
  place.dataset.seen = event.lastEventId;
  planned ??= setTimeout(refresh, PAUSE);
}

function follow() {
  const place = find(document);
  if (document.hidden || stream || !place) return;
  stream = new EventSource(`${place.dataset.follow}&after=${place.dataset.seen}`);
  for (const kind of KINDS) stream.addEventListener(kind, receive);
}

function leave() {
  stream?.close();
  stream = null;
}

follow();
document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
addEventListener("pagehide", leave);
addEventListener("pageshow", follow);
