// Keeps the end of a conversation in view while its calls load, until the reader scrolls up, clicks or presses a key.
//
// Without this script, links with #end and `scroll-initial-target` (chats.css) open a conversation at its end.  The script
// does it for other browsers, where the URL has no anchor.

const end = document.getElementById("end");
const [{ type }] = performance.getEntriesByType("navigation");
let top = 0; // the lowest scroll position so far

const follows = new ResizeObserver(() => {
  if (isLeft()) return;
  // A last row that is higher than half of the screen, such as a page in a frame, is shown from its beginning.
  const last = document.querySelector("#turns > :last-child");
  (last?.offsetHeight > innerHeight / 2 ? last : end).scrollIntoView();
  top = scrollY;
});

// The content grows only above the end, so only a reader scrolls up.
function isLeft() {
  if (scrollY < top) leave();
  else top = scrollY;
  return scrollY < top;
}

// The browser scrolls to the target of `scroll-initial-target` at each change of the layout until the reader has scrolled.
function leave() {
  follows.disconnect();
  end.style.setProperty("scroll-initial-target", "none");
}

// After a reload the browser restores the scroll position.
if (type === "navigate" && ["", "#end"].includes(location.hash)) {
  follows.observe(document.body);
  for (const name of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(name, leave, { passive: true, once: true });
  addEventListener("scroll", isLeft, { passive: true });
} else {
  leave();
}
