// Reports the height of the page's content to the page around its frame, which decides whether to follow.
(() => {
  const root = document.documentElement;
  const content = document.createRange();
  let reported = 0;
  let overflow = 0;

  // The height of what is in the body, for a page that is at least as high as its frame.
  function measureContent() {
    content.selectNodeContents(document.body);
    const { paddingBottom, marginBottom } = getComputedStyle(document.body);
    const { bottom } = content.getBoundingClientRect();
    return Math.ceil(bottom + scrollY + parseFloat(paddingBottom) + parseFloat(marginBottom));
  }

  function measure() {
    const scrolled = root.scrollHeight > innerHeight ? root.scrollHeight : 0;
    const height = Math.ceil(Math.max(root.getBoundingClientRect().height, scrolled));
    const left = height - innerHeight;
    // Content such as 100vh with a margin follows the frame, which would grow without end.
    const follows = left > 0 && left === overflow;
    overflow = Math.max(0, left);
    if (follows || (left === 0 && height === reported)) return reported;
    return left === 0 ? Math.min(height, measureContent()) : height;
  }

  function report() {
    if (!document.body || !innerWidth) return; // not parsed yet, or the frame is hidden
    const height = Math.min(4000, Math.max(80, measure()));
    if (height === reported) return;
    reported = height;
    parent.postMessage({ covaltHeight: height }, "*"); // the page around checks the frame
  }

  const observer = new ResizeObserver(report);
  observer.observe(root);
  addEventListener("DOMContentLoaded", () => {
    observer.observe(document.body);
    report();
  });
  addEventListener("load", report);
  addEventListener("resize", report);
})();
