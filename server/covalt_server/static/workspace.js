// Uploads files that are chosen, or dropped anywhere on the page, without leaving the page.

const panel = document.querySelector("[data-drop]");
const form = panel?.querySelector("form");
const sent = panel?.querySelector("[data-sent]");

const made = (name, text, attributes = {}) => {
  const element = Object.assign(document.createElement(name), attributes);
  element.textContent = text;
  return element;
};

function send(files) {
  const body = new FormData();
  body.set("chat_id", panel.dataset.chat);
  body.set("folder", form.elements.folder.value.trim().replace(/^\/+|\/+$/g, ""));
  for (const file of files) body.append("files", file, file.name);
  const total = files.reduce((size, file) => size + file.size, 0);
  if (total > Number(panel.dataset.most)) {
    tell([made("p", "That is too much at once. Send fewer files, or smaller ones.", { className: "why" })]);
    return;
  }
  // fetch() does not report the progress of an upload.
  const request = new XMLHttpRequest();
  const bar = made("progress", "", { max: 1, value: 0 });
  const what = made("p", `Sending ${files.length} ${files.length === 1 ? "file" : "files"}`);
  request.upload.addEventListener("progress", (event) => {
    if (event.lengthComputable) bar.value = event.loaded / event.total;
  });
  request.addEventListener("load", () => ended(request));
  request.addEventListener("error", () => failed("The server does not answer."));
  request.open("POST", panel.dataset.address);
  request.responseType = "json";
  request.send(body);
  tell([what, bar]);
}

function ended(request) {
  const answer = request.response;
  if (request.status !== 200) {
    const said = answer?.error_description ?? `The server answered ${request.status}.`;
    failed(said[0].toUpperCase() + said.slice(1), answer?.hint);
    return;
  }
  // The refreshed page has the names, with invisible characters escaped by the server.
  tell([made("p", answer.changed ? "Uploaded." : "The workspace had it already.")]);
  form.elements.files.value = "";
  refresh();
}

function failed(text, hint) {
  const parts = [made("p", text, { className: "why" })];
  if (hint) parts.push(made("p", hint, { className: "hint" }));
  tell(parts);
}

function tell(parts) {
  sent.replaceChildren(...parts);
}

// Loads the page again, for its tree and its last commit.
async function refresh() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return location.reload();
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!document.getElementById("last")) return location.reload();
  for (const id of ["last", "tree", "folders"]) {
    document.getElementById(id).replaceWith(page.getElementById(id));
  }
  document.dispatchEvent(new Event("covalt:more"));
}

if (panel) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send([...form.elements.files.files]);
  });
  document.addEventListener("files-dropped", ({ detail: dropped }) => {
    // A dropped folder has no files here, so the user gets a notice.
    const items = [...dropped.items].filter((item) => item.kind === "file");
    if (items.some((item) => item.webkitGetAsEntry?.()?.isDirectory)) {
      failed("A folder cannot be dropped.", "Open it, and drop the files in it; name the folder here.");
      return;
    }
    send([...dropped.files]);
  });
}
