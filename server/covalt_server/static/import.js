// Puts a ZIP that is dropped anywhere on the page, and its signature if there is one, into the form, and
// submits it.

const form = document.querySelector("[data-drop] form");

document.addEventListener("files-dropped", ({ detail: dropped }) => {
  for (const file of dropped.files) {
    const one = new DataTransfer();
    one.items.add(file);
    form.elements[file.name.endsWith(".sig") ? "signature" : "file"].files = one.files;
  }
  if (form.elements.file.files.length) form.requestSubmit(form.querySelector("button"));
});
