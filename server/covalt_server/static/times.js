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

  // An option has no elements. Its time has seconds: the calls of a minute must differ in a list.
  const writeOption = (option) => {
    option.dataset.text ??= option.textContent;
    const moment = new Date(option.dataset.time);
    // Short and first: a phone cuts off the end.
    const isToday = moment.toDateString() === new Date().toDateString();
    const time = isToday ? moment.toLocaleTimeString() : moment.toLocaleString();
    const text = option.dataset.text.replace(/^\S+ \S+ UTC/, () => time);
    if (option.textContent !== text) option.textContent = text;
  };

  // The parser adds an element before its text, which is in a record of its own then.
  const PLACES = "time[datetime], option[data-time]";
  const added = (node) => [...(node.querySelectorAll?.(PLACES) ?? []), node.closest?.(PLACES) ?? node.parentElement?.closest(PLACES)];
  const writeAny = (element) => (element.tagName === "OPTION" ? writeOption : write)(element);
  const observer = new MutationObserver((records) => {
    const nodes = records.flatMap((record) => [...record.addedNodes]);
    for (const element of new Set(nodes.flatMap(added))) if (element?.firstChild) writeAny(element);
  });
  observer.observe(document, { childList: true, subtree: true });
  setInterval(() => document.querySelectorAll(PLACES).forEach(writeAny), 30_000);
}
