// Shows the page in the frame beside its editor again when the text has not changed for a moment, or with another example.

const PAUSE = 500; // ms without input

for (const button of document.querySelectorAll("button[data-shows]")) {
  const { form } = button;
  let waiting = 0;
  const show = () => form.requestSubmit(button);
  form.addEventListener("input", (event) => {
    clearTimeout(waiting);
    if (event.target.matches("select")) show();
    else if (event.target.matches("textarea")) waiting = setTimeout(show, PAUSE);
  });
  form.addEventListener("submit", () => clearTimeout(waiting));
}
