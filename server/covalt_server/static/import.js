// A ZIP that is dropped anywhere on the page, with its signature or without, is put into the form, and
// sent as if it had been chosen.

const form = document.querySelector("[data-drop] form");

document.addEventListener("files-dropped", ({ detail: dropped }) => {
  for (const file of dropped.files) {
    const one = new DataTransfer();
    one.items.add(file);
    form.elements[file.name.endsWith(".sig") ? "signature" : "file"].files = one.files;
  }
  if (form.elements.file.files.length) form.requestSubmit(form.querySelector("button"));
});
