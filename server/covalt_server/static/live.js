// Updates the page in place after changes that the server reports (GET /api/events), while the page is visible.
//
// An element with `data-live` and an id is replaced by the element with the same id in the new page, unless it is
// in use.  One with `data-state` is replaced also then if its state differs: its forms can do nothing any more.  In an element with `data-live="rows"`, only rows that differ are replaced, and new rows are added; with
// `data-new`, a button shows how many new rows are out of sight.  An element around rows is replaced only if it
// has new rows too.  If the project's files change (`covalt-git dev`), the page is loaded again; if that would lose
// input, it shows a notice instead.

const KINDS = ["CommitAdded", "CallChanged", "ApprovalChanged", "ChatChanged", "ChatsChanged", "ProblemsChanged", "EventsLost"];
const PATIENCE = 5000; // ms until a stream that has not opened is replaced by long polling
const PAUSE = 40; // ms in which further events cause no request of their own
const MESSAGES = "covalt:messages";
const place = document.getElementById("live"); // the project's problems, under `covalt-git dev`
const chat = /^\/chats\/([^/]+)/.exec(location.pathname)?.[1];
const served = new WeakMap(); // HTML of an element as the server sent it, before scripts changed it, without the texts of timestamps
let position = document.querySelector("meta[name=covalt-position]").content;
let stream = null;
let polling = null; // the controller of long polling, if streams fail
let typed = false;
let busy = false;
let again = false;

// Input

document.addEventListener("input", (event) => {
  if (!event.target.closest("[role=search]")) typed = true;
});

// Input that the browser has restored after a reload counts as user input too.
function differs(box) {
  if (box.closest("[role=search]") || box.type === "hidden") return false;
  if (box.type === "checkbox" || box.type === "radio") return box.checked !== box.defaultChecked;
  if (box.type === "file") return box.files.length > 0;
  if (box.tagName === "SELECT") {
    const options = [...box.options];
    const chosen = options.some((one) => one.defaultSelected);
    return chosen && options.some((one) => one.selected !== one.defaultSelected);
  }
  return "defaultValue" in box && box.value !== box.defaultValue;
}

const FIELDS = "input, select, textarea";

function hasInput(element) {
  const { activeElement } = document;
  return (activeElement.matches(FIELDS) && element.contains(activeElement)) || [...element.querySelectorAll(FIELDS)].some(differs);
}

function isInUse(element) {
  return (element.contains(document.activeElement) && document.activeElement !== document.body) || hasInput(element);
}

// Updates in place

// Timestamps have another text as soon as they are parsed (times.js), and the same timestamp another one later.  On a slow
// machine, htmx marks the elements that it has processed, and frames get their height (artifacts.js), before this script runs.
const ADDED = / data-htmx-powered="true"| data-sized=""| style="--height: [^"]*"/g;
const markup = (element) => element.outerHTML.replace(/(<time datetime="[^"]*")[^>]*>[^<]*/g, "$1>").replace(ADDED, "");

function remember(root) {
  for (const element of root.querySelectorAll("[data-live], [data-live=rows] > *, [data-live=rows] details[id]")) served.set(element, markup(element));
}

// Details that have not changed stay, with what was loaded into them; others stay open or closed.
function replace(old, fresh) {
  const name = (details) => details.id || details.querySelector("summary")?.textContent;
  const before = new Map([...old.querySelectorAll("details")].map((one) => [name(one), one]));
  old.before(fresh);
  for (const one of fresh.querySelectorAll("details")) {
    const same = before.get(name(one));
    if (same && one.id && served.get(same) === served.get(one)) {
      // moveBefore() does not load the frame of an artifact again.
      one.parentNode[one.parentNode.moveBefore ? "moveBefore" : "insertBefore"](same, one);
      one.remove();
    } else if (same) {
      one.open = same.open;
    }
  }
  old.remove();
  window.htmx?.process(fresh);
}

// Returns the rows that are new.
function updateRows(list, fresh) {
  const rows = new Map([...list.children].map((row) => [row.id, row]));
  const added = [];
  let before = null;
  for (const row of [...fresh.children]) {
    const old = rows.get(row.id);
    rows.delete(row.id);
    if (old && (served.get(old) === served.get(row) || isInUse(old))) {
      before = old;
      continue;
    }
    if (old) {
      replace(old, row);
    } else {
      if (before) before.after(row);
      else list.prepend(row);
      window.htmx?.process(row);
      added.push(row);
    }
    before = row;
  }
  // Rows that the reader loaded in addition stay; a call that has ended has another row, also if this one has the focus.
  for (const row of rows.values()) if (served.has(row) && !hasInput(row)) row.remove();
  return added;
}

// Runs a change of the document; the first row in sight stays where it is, unless the page is at its top.
function anchored(change) {
  const row = scrollY && [...document.querySelectorAll("[data-live=rows] > *")].find(isInView);
  const top = row && row.getBoundingClientRect().top;
  const { style } = document.documentElement;
  style.overflowAnchor = "none"; // not every browser has it, and it loses a row that is replaced
  change();
  if (row) scrollBy(0, (document.getElementById(row.id) ?? row).getBoundingClientRect().top - top);
  requestAnimationFrame(() => style.removeProperty("overflow-anchor"));
}

function update(fresh) {
  remember(fresh);
  const isAtEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
  let added = [];
  for (const element of document.querySelectorAll("[data-live]")) {
    const found = fresh.getElementById(element.id);
    if (!found || !element.isConnected || served.get(element) === served.get(found)) continue;
    const html = served.get(found);
    if (element.dataset.live === "rows") {
      const rows = updateRows(element, found);
      if ("new" in element.dataset) added = rows;
      served.set(element, html);
    } else if (!found.querySelector("[data-live=rows]") || !element.querySelector("[data-live=rows]")) {
      const isOver = element.dataset.state !== found.dataset.state;
      const hasFocus = element.contains(document.activeElement);
      if (isOver || !isInUse(element)) replace(element, found);
      if (isOver && hasFocus) found.focus();
    }
  }
  if (!added.length) return;
  document.dispatchEvent(new CustomEvent("covalt:more"));
  if (isAtEnd && !added.at(-1).nextElementSibling) added.at(-1).scrollIntoView({ block: "end" });
  notify(added);
}

// Shows how many new rows are out of sight, instead of scrolling.
const button = Object.assign(document.createElement("button"), { type: "button", className: "fresh", hidden: true });
button.setAttribute("aria-live", "polite");
document.body.append(button);
let unseen = []; // ids, because a row may be replaced

function isInView(row) {
  const { top, bottom } = row.getBoundingClientRect();
  return top < innerHeight && bottom > 0;
}

function notify(added = []) {
  unseen.push(...added.map((row) => row.id));
  const rows = unseen.map((id) => document.getElementById(id)).filter(Boolean);
  if (rows.some(isInView)) unseen = [];
  button.hidden = !unseen.length;
  button.textContent = `${unseen.length} new`;
}

button.addEventListener("click", () => {
  document.getElementById(unseen[0])?.scrollIntoView({ block: "center" });
  notify();
});
addEventListener("scroll", () => notify(), { passive: true });

const address = () => location.pathname + location.search;

async function newPage() {
  const answer = await fetch(location.href, { headers: { "HX-Request": "true" } }).catch(() => null); // messages stay for the user
  return answer && new DOMParser().parseFromString(await answer.text(), "text/html");
}

async function refresh() {
  again = busy;
  if (busy) return;
  busy = true;
  await new Promise((done) => setTimeout(done, PAUSE));
  const asked = address();
  const fresh = await newPage();
  // Scripts change the address without loading the page (preview.js, the tool search): a page of the earlier address
  // would bring back what it showed.
  if (asked !== address()) again = true;
  else if (fresh) anchored(() => update(fresh));
  busy = false;
  if (again) refresh();
}

document.addEventListener("covalt:refresh", refresh);

// Reloading

// The server sends a message once, so it is kept over the reload that the user's own change causes.
for (const [className, textContent] of JSON.parse(sessionStorage.getItem(MESSAGES) ?? "[]")) {
  const message = Object.assign(document.createElement("p"), { className, textContent, role: "status" });
  message.dataset.message = "";
  place?.after(message);
}
sessionStorage.removeItem(MESSAGES);

function offer() {
  const line = document.createElement("p");
  line.className = "notice warn";
  const reload = Object.assign(document.createElement("button"), { type: "button", textContent: "Reload" });
  // Not reload(), which may send a form again.
  reload.addEventListener("click", () => location.assign(location.href));
  line.append("The project has changed; what you typed here is not sent yet. ", reload);
  place.append(line);
}

async function reload() {
  const found = (await newPage())?.getElementById("live");
  if (!found || found.dataset.version === place.dataset.version) return;
  place.dataset.version = found.dataset.version;
  if (typed || "form" in place.dataset || [...document.querySelectorAll("input, select, textarea")].some(differs)) {
    place.replaceChildren(...found.children);
    offer();
  } else {
    const messages = [...document.querySelectorAll("[data-message]")];
    sessionStorage.setItem(MESSAGES, JSON.stringify(messages.map((one) => [one.className, (one.querySelector("p") ?? one).textContent])));
    location.reload();
  }
}

// Events

function receive(kind, id, facts) {
  position = id;
  if (kind === "ProblemsChanged" && place && !facts.chat_id) reload();
  else if (kind === "EventsLost") {
    if (place) reload();
    refresh();
  } else if (kind === "ApprovalChanged" || chat === undefined || chat === facts.chat_id) refresh();
}

function follow() {
  if (document.hidden || stream || polling) return;
  stream = new EventSource(`/api/events?${new URLSearchParams({ after: position })}`);
  const late = setTimeout(poll, PATIENCE);
  stream.addEventListener("open", () => clearTimeout(late));
  stream.addEventListener("error", () => {
    if (stream?.readyState === EventSource.CLOSED) poll();
  });
  for (const kind of KINDS) {
    stream.addEventListener(kind, (event) => receive(kind, event.lastEventId, JSON.parse(event.data)));
  }
}

// Long polling: where a proxy buffers streams, and while the server answers with errors.
async function poll() {
  leave();
  if (document.hidden) return;
  const { signal } = (polling = new AbortController());
  while (!signal.aborted) {
    const query = new URLSearchParams({ after: position, poll: true });
    const answer = await fetch(`/api/events?${query}`, { signal }).catch(() => null);
    let isLost = false; // behind a proxy, each answer can be of another node
    for (const event of answer?.ok ? (await answer.text()).split("\n\n") : []) {
      const field = Object.fromEntries(event.split("\n").map((line) => line.split(/: (.*)/s, 2)));
      isLost ||= field.event === "EventsLost";
      if (field.event) receive(field.event, field.id, JSON.parse(field.data));
      else position = field.id ?? position;
    }
    await new Promise((done) => setTimeout(done, answer?.ok && !isLost ? 0 : PATIENCE));
  }
}

function leave() {
  stream?.close();
  polling?.abort();
  stream = polling = null;
}

remember(document);
follow();
document.addEventListener("visibilitychange", () => (document.hidden ? leave() : follow()));
addEventListener("pagehide", leave);
addEventListener("pageshow", follow);
