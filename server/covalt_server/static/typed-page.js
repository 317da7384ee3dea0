// Shows the page in the frame beside its editor again when the text has not changed for a moment, or with another example.

const PAUSE = 500; // ms without input

for (const button of document.querySelectorAll("button[data-shows]")) {
  const { form } = button;
  let waiting = 0;
  const show = () => form.requestSubmit(button);
  form.addEventListener("input", (event) => {
    // The editor's own element has input events too, after those of its textarea.
    if (!event.target.matches("select, textarea")) return;
    clearTimeout(waiting);
    waiting = setTimeout(show, event.target.matches("select") ? 0 : PAUSE);
  });
  form.addEventListener("submit", () => clearTimeout(waiting));
  if (form.querySelector("textarea[data-unsaved]")) show(); // the frame has the saved file
}
