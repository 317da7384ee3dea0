// Turns <textarea data-editor> into an editor with highlighting, line numbers and search.  The textarea
// stays the field of its form and always contains the text, so the form works the same without this
// script.  data-language or data-path determines the language; data-preview="URL" shows the HTML that the
// URL returns for the text next to the editor.

const PAUSE = 300; // milliseconds without input before the preview is updated
const unsaved = new Set();

async function edit(root = document) {
  const fields = [...root.querySelectorAll("textarea[data-editor]")];
  const found = fields.filter((field) => field.dataset.editor !== "on");
  if (!found.length) return;
  for (const field of found) field.dataset.editor = "on";
  const editor = await import("./vendor/codemirror.js");
  for (const field of found) open(field, editor);
}

function open(field, { EditorState, EditorView, basics }) {
  const place = document.createElement("div");
  place.className = "editor";
  const following = field.dataset.preview ? preview(field) : null;

  const changed = EditorView.updateListener.of((update) => {
    if (!update.docChanged) return;
    field.value = update.state.doc.toString();
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
  const label = field.labels?.[0];
  const view = new EditorView({
    parent: place,
    doc: field.value,
    extensions: [
      plainly(EditorView),
      basics(field.dataset.language, field.dataset.path),
      changed,
      EditorState.readOnly.of(field.readOnly),
      EditorView.cspNonce.of(document.querySelector("meta[name=csp-nonce]")?.content ?? ""),
      EditorView.contentAttributes.of({
        tabindex: "0",
        "aria-label": field.getAttribute("aria-label") ?? label?.textContent.trim() ?? "Text",
        // The page's sentence about the keys.
        ...(field.getAttribute("aria-describedby") && { "aria-describedby": field.getAttribute("aria-describedby") }),
      }),
    ],
  });

  // The field can also be changed by an example's button or by the browser's back button.
  field.addEventListener("input", () => {
    const text = field.value;
    const same = text === view.state.doc.toString();
    if (!same) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    note(field);
    following?.later(text);
  });
  label?.addEventListener("click", () => view.focus());

  if (field.autofocus) goTo(view, EditorView, Number(field.dataset.line ?? 1), Number(field.dataset.col ?? 1));
  field.hidden = true;
  field.required = false; // the browser cannot focus a hidden field; the server checks it
  if (following) {
    const beside = document.createElement("div");
    beside.className = "beside";
    beside.append(place, following.element);
    field.after(beside);
    following.now(field.value);
  } else {
    field.after(place);
  }
  note(field);
}

// Inserts only what was typed: the languages of CodeMirror close a tag of HTML by themselves, and whoever types
// the closing tag too would have it twice.
function plainly(EditorView) {
  return EditorView.inputHandler.of((view, _from, _to, text, insert) => {
    if (text !== ">" && text !== "/") return false;
    view.dispatch(insert());
    return true;
  });
}

// Puts the caret at a line and a column, from 1, after the editor is in the page.  A column counts characters, and a position
// of the editor UTF-16 units.
function goTo(view, EditorView, number, column) {
  const { from, text } = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
  const anchor = from + [...text].slice(0, Math.max(column - 1, 0)).join("").length;
  queueMicrotask(() => {
    view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    view.focus();
  });
}

// Returns the HTML preview of the text; if a request fails, the previous preview stays.
function preview(field) {
  const element = document.createElement("section");
  element.className = "document preview";
  element.tabIndex = 0;
  element.setAttribute("aria-label", "Preview");
  let timer;
  let asked = new AbortController();

  async function now(text) {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      const answer = await fetch(field.dataset.preview, {
        method: "POST",
        headers: { "Content-Type": "text/plain; charset=utf-8" },
        body: text,
        signal,
      });
      if (!answer.ok) throw new Error(`the preview answered ${answer.status}`);
      const html = await answer.text();
      if (signal.aborted) return;
      const { scrollTop, scrollLeft } = element;
      element.innerHTML = html;
      element.scrollTo(scrollLeft, scrollTop);
      delete element.dataset.trouble;
    } catch (error) {
      if (!signal.aborted) element.dataset.trouble = error.message;
    }
  }

  function later(text) {
    clearTimeout(timer);
    timer = setTimeout(now, PAUSE, text);
  }
  return { element, now, later };
}

// The initial text is the saved one, unless the page reports that saving failed.
function note(field) {
  const saved = field.value === field.defaultValue && !("unsaved" in field.dataset);
  if (saved) unsaved.delete(field);
  else unsaved.add(field);
}

// Ctrl-S or Cmd-S anywhere in the form presses its button.
document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
  const form = event.target.closest?.("form:has(textarea[data-editor=on])");
  if (!form || event.shiftKey) return;
  event.preventDefault();
  // Only its own buttons: the editor has a form of its own for a line's number.
  form.requestSubmit([...form.elements].find((one) => one.matches("button:not([type], [formtarget]), [type=submit]")));
});

window.addEventListener("submit", (event) => {
  // A button that shows the text in a frame leaves the page, and the unsaved text, as they are.
  if (event.defaultPrevented || event.submitter?.formTarget) return;
  for (const field of unsaved) if (field.form === event.target) unsaved.delete(field);
});
window.addEventListener("beforeunload", (event) => {
  for (const field of unsaved) if (!field.isConnected) unsaved.delete(field);
  if (unsaved.size) event.preventDefault();
});

// A page restored from the back/forward cache already has its editor and its unsaved text.
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const field of document.querySelectorAll("textarea[data-editor=on]")) note(field);
});
document.addEventListener("htmx:after:swap", (event) => edit(event.target));
edit();
