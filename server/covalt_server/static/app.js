// Enhancements of all pages, which also work without JavaScript.

for (const loaded of ["covalt:more", "htmx:after:swap"]) {
  document.addEventListener(loaded, addCopyButtons);
}

// Rows that live.js adds load their parts as the others do.
if (globalThis.htmx) {
  const added = new MutationObserver((records) => {
    for (const node of records.flatMap((one) => [...one.addedNodes])) if (node.matches?.(".step")) htmx.process(node);
  });
  added.observe(document.querySelector("main"), { childList: true, subtree: true });
}

// A link to hidden lines is replaced by them: the listing keeps the focus.
let listing = null;
document.addEventListener("click", ({ target }) => { listing = target.closest?.(".code .hunk a")?.closest(".code") ?? null; });
document.addEventListener("htmx:after:swap", () => {
  if (document.activeElement === document.body) listing?.focus({ preventScroll: true });
});

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

// A menu covers what is below it: a click elsewhere, focus elsewhere and Escape close it.
function closeMenus(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(except)) menu.open = false;
}

for (const name of ["click", "focusin"]) document.addEventListener(name, (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented) return;
  document.activeElement.closest("details.menu[open]")?.querySelector("summary").focus();
  closeMenus(null);
});

// After Back or a reload, the browser puts what was typed back into a form, and the rest of the page is newer: the version of
// the file that the form names is no longer the one that was typed about, and the change of another would be overwritten.
// So the step of the history stores the versions that were seen, which are those of the fields with data-seen.
let hasVersions = false;
function putVersionsBack() {
  const fields = hasVersions ? [] : [...document.querySelectorAll("input[data-seen]")];
  hasVersions = true;
  if (!fields.length) return;
  const key = (field) => `${field.form.getAttribute("action")} ${field.name}`;
  const before = history.state?.seen ?? {};
  const restored = new Set(fields.map((field) => field.form).filter((form) => [...form.elements].some(isRestored)));
  for (const field of fields) if (restored.has(field.form)) field.value = before[key(field)] ?? field.value;
  const seen = Object.fromEntries(fields.map((field) => [key(field), field.value]));
  history.replaceState({ ...history.state, seen }, "");
}
// The text is there after the modules have run, at the latest with pageshow; before it, a form can be submitted.
document.addEventListener("submit", putVersionsBack, true);
window.addEventListener("pageshow", putVersionsBack);

function isRestored(control) {
  if (control.type === "checkbox" || control.type === "radio") return control.checked !== control.defaultChecked;
  return control.matches("textarea, input:not([type=hidden])") && control.value !== control.defaultValue;
}

// A text typed in the field of a choice is that choice.
document.addEventListener("input", ({ target }) => {
  const choice = document.getElementById(target.dataset?.chooses);
  if (choice) choice.checked = true;
});

// A submitted form cannot be submitted twice; its button shows that the request is running.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.defaultPrevented || !button || event.target.method !== "post") return;
  // This page answered a form, so Back would open an error of the browser, which may not send the form again.  A step of
  // the history that is replaced is loaded with GET.
  if ("answer" in document.documentElement.dataset) history.replaceState(history.state, "", location.href);
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
