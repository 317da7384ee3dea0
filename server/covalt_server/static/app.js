// Enhancements of all pages, which also work without JavaScript.

// Timestamps in the reader's locale and time zone; the exact one is the title.
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const STEPS = [["minute", 60], ["hour", 3600], ["day", 86400], ["week", 604800]];

function sayTimes(root = document) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const moment = new Date(element.dateTime);
    const seconds = (moment - Date.now()) / 1000;
    const age = Math.abs(seconds);
    element.title = moment.toLocaleString();
    if (age < 45) {
      element.textContent = seconds < 0 ? "just now" : "in a moment";
    } else if (age < 30 * 86400) {
      const [unit, length] = STEPS.findLast(([, size]) => age >= size) ?? STEPS[0];
      element.textContent = relative.format(Math.round(seconds / length), unit);
    } else {
      element.textContent = moment.toLocaleDateString();
    }
  }
}

sayTimes();
setInterval(sayTimes, 30_000);
for (const loaded of ["covalt:more", "htmx:after:swap"]) {
  document.addEventListener(loaded, () => {
    sayTimes();
    addCopyButtons();
  });
}

// Rows that live.js adds load their parts as the others do.
if (globalThis.htmx) {
  const added = new MutationObserver((records) => {
    for (const node of records.flatMap((one) => [...one.addedNodes])) if (node.matches?.(".step")) htmx.process(node);
  });
  added.observe(document.querySelector("main"), { childList: true, subtree: true });
}

// The button next to a command copies it; the clipboard API needs https or localhost.
for (const button of navigator.clipboard ? document.querySelectorAll("[data-copy]") : []) button.hidden = false;

// Blocks of code in documents and messages have one too.
function addCopyButtons() {
  for (const block of navigator.clipboard ? document.querySelectorAll(".document pre:not(:has([data-copy]))") : []) {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "small copy", textContent: "Copy" });
    button.dataset.copy = "";
    block.append(button);
  }
}

addCopyButtons();
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy || button.parentElement.querySelector("code").textContent);
  button.textContent = "Copied";
});

// A menu covers what is below it: a click elsewhere and Escape close it.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(except)) menu.open = false;
}

document.addEventListener("click", (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  document.activeElement.closest("details.menu[open]")?.querySelector("summary").focus();
  closeMenus(null);
});

// A submitted form cannot be submitted twice; its button shows that the request is running.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.defaultPrevented || !button || event.target.method !== "post") return;
  // After the browser has collected the fields, because a disabled button is not sent.
  setTimeout(() => {
    button.disabled = true;
    button.classList.add("busy");
  });
});
window.addEventListener("pageshow", () => {
  for (const button of document.querySelectorAll("button.busy")) {
    button.disabled = false;
    button.classList.remove("busy");
  }
});
