// Keeps the end of a conversation in view while its calls load, until the reader scrolls up, clicks or presses a key.
//
// Without this script, links with #end and `scroll-initial-target` (chats.css) open a conversation at its end.  The script
// does it for other browsers, where the URL has no anchor.

const end = document.getElementById("end");
const [{ type }] = performance.getEntriesByType("navigation");
let top = 0;

const follows = new ResizeObserver(() => end.scrollIntoView());

function leave() {
  follows.disconnect();
}

// After a reload the browser restores the scroll position.
if (type === "navigate" && ["", "#end"].includes(location.hash)) {
  follows.observe(document.body);
  for (const name of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(name, leave, { passive: true, once: true });
  addEventListener("scroll", () => {
    if (scrollY < top) leave();
    top = scrollY;
  }, { passive: true });
}
