// Gives the focus back if a third-party frame takes it while the user types elsewhere.  A frame may have it while the pointer
// is over it, or after Tab.  No attribute keeps a frame from focus(), so one that takes it again and again is removed.

const MOST = 3; // an app may focus a field when it is loaded
const counts = new WeakMap(); // how often a frame took the focus
let held = null; // the element of this page that has the focus, or had it before a frame
let tabbed = false;

function remember() {
  const active = document.activeElement;
  if (active?.tagName !== "IFRAME") held = active === document.body ? null : active;
}

function remove(frame) {
  const note = document.createElement("p");
  const button = document.createElement("button");
  button.textContent = "Show it again";
  button.addEventListener("click", () => note.replaceWith(frame));
  note.setAttribute("role", "status");
  note.append("This page is hidden, because it took the keyboard while you typed. ", button);
  frame.replaceWith(note);
}

function giveBack() {
  const frame = document.activeElement;
  // A finger is nowhere before it touches, so on a screen for fingers a tap into the frame would look like a theft.
  if (frame?.tagName !== "IFRAME" || !held?.isConnected || !matchMedia("(hover: hover)").matches) return;
  const count = tabbed || frame.parentElement.matches(":hover") ? 0 : (counts.get(frame) ?? 0) + 1;
  counts.set(frame, count % MOST);
  if (!count) return;
  if (count === MOST) remove(frame);
  held.focus({ preventScroll: true });
}

document.addEventListener("focusin", ({ target }) => {
  if (target.tagName !== "IFRAME") tabbed = false;
  remember();
});
document.addEventListener("pointerup", remember);
document.addEventListener("keydown", ({ key }) => {
  remember();
  tabbed = key === "Tab";
}, { capture: true });
// Browsers set the active element before or after this event.
addEventListener("blur", () => setTimeout(giveBack));
