// A ZIP that is dropped anywhere on the page, with its signature or without, is put into the form, and
// sent as if it had been chosen.

const form = document.querySelector("[data-drop] form");
const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

form.querySelector("[data-hint]").hidden = false;
let inside = 0;
document.addEventListener("dragenter", (event) => {
  if (hasFiles(event)) document.body.classList.toggle("dropping", ++inside > 0);
});
document.addEventListener("dragleave", (event) => {
  if (hasFiles(event)) document.body.classList.toggle("dropping", --inside > 0);
});
document.addEventListener("dragover", (event) => {
  if (hasFiles(event)) event.preventDefault();
});
document.addEventListener("drop", (event) => {
  if (!hasFiles(event)) return;
  event.preventDefault();
  inside = 0;
  document.body.classList.remove("dropping");
  for (const file of event.dataTransfer.files) {
    const one = new DataTransfer();
    one.items.add(file);
    form.elements[file.name.endsWith(".sig") ? "signature" : "file"].files = one.files;
  }
  if (form.elements.file.files.length) form.requestSubmit(form.querySelector("button"));
});
