// Gives the frame of an artifact the height that its page reports; without this script the height is fixed.
//
// The page in the frame is third-party code.  Only a number in the limits is used, only for the frame that
// sent it, and no more often than RATE.

const LEAST = 80; // px
const MOST = 4000;
const RATE = 30; // changes a second
const heights = new WeakMap(); // the last reported height of a frame, until it is set

function set(frame) {
  const height = heights.get(frame);
  heights.delete(frame);
  const border = frame.offsetHeight - frame.clientHeight;
  frame.style.setProperty("--height", `${height + border}px`);
  frame.dataset.sized = "";
}

addEventListener("message", ({ data, origin, source }) => {
  const height = data?.covaltHeight;
  if (origin !== "null" || typeof height !== "number" || !(height >= LEAST && height <= MOST)) return;
  const frame = [...document.querySelectorAll("iframe.artifact")].find((one) => one.contentWindow === source);
  if (!frame) return;
  if (!heights.has(frame)) setTimeout(set, 1000 / RATE, frame);
  heights.set(frame, height);
});
