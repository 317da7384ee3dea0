// Keys of all pages; the dialog of templates/_keys.html lists them.  They do nothing while the reader types.

const TYPED = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable], .cm-editor";
const ROWS = "main :is(.list > li, .cards > li, .turns > li, .history > li, .tools > li, .hits > li, tbody > tr)";
const PAUSE = 1500; // ms in which a second key follows "g"
const dialog = document.getElementById("keys");
let going = 0; // when "g" was pressed

function search() {
  const field = document.querySelector("[data-search]");
  field?.focus();
  field?.select();
}

// The row's main link, else its first link, or the line that unfolds it: a screen reader reads it, and Enter opens it too.
// Never a button, which can change something.
const target = (row) => row.querySelector("a[data-main]") ?? row.querySelector("a[href], summary");
const rows = () => [...document.querySelectorAll(ROWS)].filter((row) => target(row)?.checkVisibility());

function move(step) {
  const every = rows();
  const at = every.findIndex((row) => row.contains(document.activeElement));
  // Without a row that has the focus, the first one in view: a conversation opens at its end.
  const next = at < 0 ? every.findIndex((one) => one.getBoundingClientRect().bottom > 0) : at + step;
  const row = every.at(at < 0 && next < 0 ? -1 : Math.min(Math.max(next, 0), every.length - 1));
  if (!row) return;
  target(row).focus({ focusVisible: true });
  row.scrollIntoView({ block: "nearest" });
}

function open() {
  const row = rows().find((one) => one.contains(document.activeElement));
  if (row) target(row).click();
}

const KEYS = {
  "/": search,
  "?": () => dialog.showModal(),
  j: () => move(1),
  k: () => move(-1),
  o: open,
  g: () => { going = Date.now(); },
};

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || dialog.open) return;
  const isSearch = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.target.closest?.(".cm-editor");
  if (!isSearch && (event.ctrlKey || event.metaKey || event.target.closest?.(TYPED))) return;
  const place = Date.now() - going < PAUSE && !isSearch && dialog.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
  going = 0;
  const act = isSearch ? search : place ? () => place.click() : KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

const button = document.querySelector("[data-keys]");
button.hidden = false;
button.addEventListener("click", () => dialog.showModal());
