// Writes timestamps in the reader's language and time zone; the exact one is the title.
//
// The page has them in UTC, with another width.  An observer changes them while the page is parsed, so before they are
// drawn: text that changes its width later would move what is next to it.

{
  const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
  const STEPS = [["minute", 60], ["hour", 3600], ["day", 86400], ["week", 604800]];

  const words = (moment) => {
    const seconds = (moment - Date.now()) / 1000;
    const age = Math.abs(seconds);
    if (age < 45) return seconds < 0 ? "just now" : "in a moment";
    if (age >= 30 * 86400) return moment.toLocaleDateString();
    const [unit, length] = STEPS.findLast(([, size]) => age >= size) ?? STEPS[0];
    return relative.format(Math.round(seconds / length), unit);
  };

  const write = (element) => {
    const moment = new Date(element.dateTime);
    const text = words(moment);
    if (element.textContent === text) return;
    element.title = moment.toLocaleString();
    element.textContent = text;
  };

  // The parser adds an element before its text, which is in a record of its own then.
  const added = (node) => [...(node.querySelectorAll?.("time[datetime]") ?? []), node.closest?.("time[datetime]") ?? node.parentElement?.closest("time[datetime]")];
  const observer = new MutationObserver((records) => {
    const nodes = records.flatMap((record) => [...record.addedNodes]);
    for (const element of new Set(nodes.flatMap(added))) if (element?.firstChild) write(element);
  });
  observer.observe(document, { childList: true, subtree: true });
  setInterval(() => document.querySelectorAll("time[datetime]").forEach(write), 30_000);
}
