// Sends an event "files-dropped" with the data of the drag when files are dropped anywhere on a page that
// accepts files.

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
const panel = document.querySelector("[data-drop]");

if (panel) {
  panel.querySelector("[data-hint]").hidden = false;
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
    document.dispatchEvent(new CustomEvent("files-dropped", { detail: event.dataTransfer }));
  });
}
