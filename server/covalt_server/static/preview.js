// Shows a preview again when its branch has moved, changes what it shows and its width without loading the page around
// it, and scales a frame that is wider than its pane.  Without this script, links and a form load the page.

// A comparison has two frames.
const boxes = () => [...document.querySelectorAll(".preview-frame")];
const place = () => document.querySelector(".preview-frame");

// Another frame instead of another `src`, which would be a step of the browser's history.
function renew(box) {
  const url = box.nextElementSibling?.dataset.url;
  const frame = box.querySelector("iframe");
  if (!url || !frame || frame.getAttribute("src") === url) return;
  const fresh = frame.cloneNode();
  fresh.src = url;
  // Also the focus within the page of the frame, which otherwise moves to the beginning of the whole page.
  const focused = document.activeElement === frame;
  frame.replaceWith(fresh);
  if (focused) fresh.focus({ preventScroll: true });
}

function scale() {
  for (const box of boxes()) {
    const { width } = box.dataset;
    const factor = width ? Math.min(1, box.clientWidth / width) : 1;
    box.classList.toggle("scaled", factor < 1);
    box.style.setProperty("--scale", factor);
  }
}

const sized = new ResizeObserver(scale);
let observed = [];

function update() {
  const every = boxes();
  every.forEach(renew);
  if (every.length === observed.length && every.every((box, at) => box === observed[at])) return;
  observed = every;
  sized.disconnect();
  for (const box of every) sized.observe(box);
}

function resize(width) {
  for (const box of boxes()) {
    if (width) box.dataset.width = width;
    else delete box.dataset.width;
  }
  for (const link of document.querySelectorAll(".widths a")) {
    if (link.dataset.width === width) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  scale();
}

// live.js and a reload ask for the page of this URL.
function rename(url) {
  const width = place()?.dataset.width;
  if (width) url.searchParams.set("width", width);
  else url.searchParams.delete("width");
  url.hash = location.hash;
  history.replaceState(history.state, "", url);
}

let shows = 0; // counts what the user chose, so that the answer to an earlier choice is ignored

async function show(url) {
  const choice = ++shows;
  const answer = await fetch(url, { headers: { "HX-Request": "true" } }).catch(() => null); // messages stay for the user
  const text = (answer?.ok && (await answer.text())) || "";
  if (choice !== shows) return;
  const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("preview");
  if (!fresh) return location.assign(url);
  const width = place()?.dataset.width;
  document.getElementById("preview").replaceChildren(...fresh.childNodes);
  if (place()) resize(width ?? "");
  rename(url);
  // The branch may have moved after the server rendered this answer, and live.js has shown that for the earlier address.
  document.dispatchEvent(new Event("covalt:refresh"));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.(".preview-pane a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const url = new URL(link.href);
  if ("width" in link.dataset) {
    event.preventDefault();
    resize(link.dataset.width);
    rename(new URL(location.href));
  } else if (link.closest("#preview") && url.pathname === location.pathname && url.search !== location.search) {
    // A link with the same query, such as *Close*, only moves on this page.
    event.preventDefault();
    show(url);
  }
});

document.addEventListener("submit", (event) => {
  if (!event.target.closest("#preview")) return;
  event.preventDefault();
  const url = new URL(event.target.action);
  url.search = new URLSearchParams(new FormData(event.target));
  show(url);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && location.hash === "#preview" && matchMedia("(max-width: 1099.98px)").matches) location.hash = "end";
});

new MutationObserver(update).observe(document.getElementById("content"), { childList: true, subtree: true, attributeFilter: ["data-url"] });
update();
