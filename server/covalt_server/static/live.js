// Under `covalt-git dev`, reloads a page when a toolset changes.  If that would lose the user's input, it
// shows a notice instead.  The browser keeps the scroll position.

const PAUSE = 500; // ms between two requests
const place = document.getElementById("live");
const MESSAGES = "covalt:messages";
let shown = place.dataset.version;
let typed = false;
let stopped = false;

// The server sends a message once, so it is kept over the reload that the user's own change causes.
for (const [className, textContent] of JSON.parse(sessionStorage.getItem(MESSAGES) ?? "[]")) {
  place.after(Object.assign(document.createElement("p"), { className, textContent, role: "status" }));
}
sessionStorage.removeItem(MESSAGES);

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
    const given = options.some((one) => one.defaultSelected);
    return given && options.some((one) => one.selected !== one.defaultSelected);
  }
  return "defaultValue" in box && box.value !== box.defaultValue;
}

function holdsInput() {
  return typed || "form" in place.dataset || [...document.querySelectorAll("input, select, textarea")].some(differs);
}

function offer() {
  const line = document.createElement("p");
  line.className = "notice warn";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Reload";
  // Not reload(), which may send a form again.
  button.addEventListener("click", () => location.assign(location.href));
  line.append("The project has changed; what you typed here is not sent yet. ", button);
  place.append(line);
}

async function look() {
  if (document.hidden) return;
  const answer = await fetch("/live").catch(() => null);
  if (answer?.status === 404) stopped = true; // now the server is `covalt-git serve`
  if (!answer?.ok) return; // the server is stopped or restarting
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("live");
  if (!found || found.dataset.version === shown) return;
  shown = found.dataset.version;
  if (holdsInput()) {
    place.replaceChildren(...found.children);
    offer();
  } else {
    const messages = [...document.querySelectorAll("[data-message]")];
    sessionStorage.setItem(MESSAGES, JSON.stringify(messages.map((one) => [one.className, one.textContent])));
    location.reload();
  }
}

async function follow() {
  await look();
  if (!stopped) setTimeout(follow, PAUSE);
}

document.addEventListener("visibilitychange", look);
setTimeout(follow, PAUSE);
