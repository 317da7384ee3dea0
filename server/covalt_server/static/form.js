// A tool's form without reloads.  The server renders and validates the form; this script requests it again
// while the user types, to show problems, and when a button changes the form.
// A page is `<form class="form" id="..." method="post" data-check="...">` with the macro `inputs`.

const PAUSE = 250; // ms without input

for (const form of document.querySelectorAll("form[data-check]")) enliven(form);

function enliven(form) {
  let edits = 0; // counts inputs, so that answers to older requests are ignored
  let waiting = 0;
  const touched = new Set(); // ids of changed boxes: an untouched form shows no missing fields

  form.addEventListener("input", (event) => {
    edits += 1;
    touched.add(event.target.id);
    clearTimeout(waiting);
    waiting = setTimeout(check, PAUSE);
  });

  form.addEventListener("submit", (event) => {
    clearTimeout(waiting);
    if (!event.submitter?.matches("[name=_add], [name=_remove], [name=_use], [name=_example]")) return;
    event.preventDefault();
    redraw(event.submitter);
  });

  // The address of a page that shows problems names the chat of the call, so that it opens with this chat again.
  form.addEventListener("change", (event) => {
    if (event.target.name !== "chat" || !("addressChat" in form.dataset)) return;
    const address = new URL(form.action);
    address.searchParams.set("chat", event.target.value); // empty for a new chat
    form.action = address.href;
    showChat();
  });

  // The last calls in the chosen chat, and what the form offers for it.  A reload shows the same chat.
  async function showChat() {
    const asked = edits;
    const answer = await send(form.action, "_chat", "1", "text/html").catch(() => null);
    const page = answer?.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page?.getElementById(form.id) || asked !== edits) return;
    for (const part of document.querySelectorAll("[data-of-chat]")) {
      const drawn = page.getElementById(part.id);
      if (drawn) part.replaceWith(document.adoptNode(drawn));
    }
    const inputs = page.getElementById(form.id).querySelector("[data-inputs]");
    if (inputs) form.querySelector("[data-inputs]").replaceWith(document.adoptNode(inputs));
    const address = new URL(form.action);
    history.replaceState(history.state, "", address.pathname + address.search);
    if (touched.size) check();
  }

  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    form.requestSubmit();
  });

  async function check() {
    const asked = edits;
    const answer = await send(form.dataset.check, "_check", "1", "application/json").catch(() => null);
    if (!answer?.ok || asked !== edits) return;
    const { problems, texts } = await answer.json();
    show(problems);
    copy(texts ?? {});
  }

  // New problems are shown only at changed fields; solved problems are removed everywhere.
  function show(problems) {
    const told = new Map();
    for (const { path, message } of problems) told.set(path, [...(told.get(path) ?? []), message]);
    for (const place of form.querySelectorAll("[data-error]")) {
      const boxes = [...form.querySelectorAll(`[aria-describedby~="${CSS.escape(place.id)}"]`)];
      const isSeen = place.textContent !== "" || boxes.some(isTouched);
      const text = isSeen ? (told.get(place.dataset.error) ?? []).join("\n") : "";
      if (place.textContent !== text) place.textContent = text;
      for (const box of boxes.filter((one) => one.tagName !== "FIELDSET")) {
        if (text) box.setAttribute("aria-invalid", "true");
        else box.removeAttribute("aria-invalid");
      }
    }
  }

  // The texts of the call to copy, of the last input that is valid JSON.
  function copy(texts) {
    for (const place of form.querySelectorAll("[data-text]")) {
      const text = texts[place.dataset.text];
      if (text === undefined) continue;
      place.textContent = text;
      const button = place.closest("section").querySelector("[data-copy]");
      button.dataset.copy = text;
    }
  }

  function isTouched(box) {
    if (box.tagName !== "FIELDSET") return touched.has(box.id);
    return [...box.elements].some((one) => touched.has(one.id));
  }

  // Shows the form that the server renders after a button, and focuses the field that it selects.
  async function redraw(button) {
    const asked = edits;
    const answer = await send(form.action, button.name, button.value, "text/html").catch(() => null);
    if (asked !== edits) return redraw(button);
    const page = answer && new DOMParser().parseFromString(await answer.text(), "text/html");
    const drawn = page?.getElementById(form.id)?.querySelector("[data-inputs]");
    if (!drawn) return HTMLFormElement.prototype.submit.call(withButton(button));
    const held = document.activeElement?.id;
    form.querySelector("[data-inputs]").replaceWith(document.adoptNode(drawn));
    const next = form.querySelector("[autofocus]") ?? (held && document.getElementById(held));
    next?.focus();
    if (touched.size) check();
  }

  function send(address, name, value, accept) {
    const fields = new URLSearchParams(new FormData(form));
    fields.append(name, value);
    return fetch(address, { method: "POST", body: fields, headers: { Accept: accept } });
  }

  // If the server does not return a form, submit without the script and show the server's page.
  function withButton(button) {
    const pressed = document.createElement("input");
    Object.assign(pressed, { type: "hidden", name: button.name, value: button.value });
    form.append(pressed);
    return form;
  }
}
