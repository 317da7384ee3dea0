// What server/covalt_server/static/vendor/codemirror.js is made of: the parts of CodeMirror that
// static/editor.js uses.  Tokens get the class names of Pygments, so that static/code.css colours
// a text the same where it is shown and where it is edited.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { css } from "@codemirror/lang-css";
import { html } from "@codemirror/lang-html";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown, markdownLanguage } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
  EditorView, drawSelection, dropCursor, highlightActiveLine, highlightActiveLineGutter,
  highlightSpecialChars, keymap, lineNumbers, rectangularSelection,
} from "@codemirror/view";
import { tagHighlighter, tags } from "@lezer/highlight";

const pygments = tagHighlighter([
  { tag: tags.comment, class: "c" },
  { tag: [tags.meta, tags.processingInstruction], class: "cp" },
  { tag: [tags.keyword, tags.controlKeyword, tags.definitionKeyword, tags.modifier], class: "k" },
  { tag: tags.moduleKeyword, class: "kn" },
  { tag: tags.operatorKeyword, class: "ow" },
  { tag: [tags.bool, tags.null, tags.atom, tags.self], class: "kc" },
  { tag: [tags.string, tags.character, tags.attributeValue, tags.docString], class: "s" },
  { tag: tags.escape, class: "se" },
  { tag: tags.regexp, class: "sr" },
  { tag: tags.special(tags.brace), class: "si" },
  { tag: [tags.number, tags.unit, tags.color], class: "m" },
  { tag: [tags.operator, tags.derefOperator], class: "o" },
  { tag: [tags.punctuation, tags.bracket, tags.separator], class: "p" },
  { tag: tags.tagName, class: "nt" },
  { tag: tags.attributeName, class: "na" },
  { tag: tags.definition(tags.propertyName), class: "nt" },
  { tag: [tags.className, tags.definition(tags.className)], class: "nc" },
  { tag: [tags.typeName, tags.namespace], class: "nc" },
  { tag: tags.function(tags.definition(tags.variableName)), class: "nf" },
  { tag: tags.function(tags.definition(tags.propertyName)), class: "nf" },
  { tag: tags.standard(tags.variableName), class: "nb" },
  { tag: [tags.variableName, tags.special(tags.variableName)], class: "n" },
  { tag: tags.labelName, class: "nl" },
  { tag: tags.heading, class: "gh" },
  { tag: tags.strong, class: "gs" },
  { tag: tags.emphasis, class: "ge" },
  { tag: [tags.link, tags.url], class: "nt" },
  { tag: tags.monospace, class: "s" },
  { tag: tags.quote, class: "c" },
]);
const keysOfJson = tagHighlighter([{ tag: tags.propertyName, class: "nt" }], {
  scope: (type) => type.name === "JsonText",
});

// By the names that Pygments has for the same languages, and by the endings of files.
const script = (options) => () => javascript(options);
const languages = {
  css, html, json, python, yaml,
  htm: html, py: python, yml: yaml,
  javascript: script(), js: script(), mjs: script(), cjs: script(),
  jsx: script({ jsx: true }),
  typescript: script({ typescript: true }), ts: script({ typescript: true }),
  tsx: script({ jsx: true, typescript: true }),
  markdown: prose, md: prose,
};
const known = (name) => (Object.hasOwn(languages, name) ? languages[name]() : null);

function prose() {
  return markdown({ base: markdownLanguage, codeLanguages: (name) => known(name)?.language });
}

/** What every editor has; its language by name, or else by the ending of the file's path. */
export function basics(language = "", path = "") {
  const written = known(language.toLowerCase()) ?? known(path.split(".").at(-1).toLowerCase());
  return [
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    dropCursor(),
    EditorState.allowMultipleSelections.of(true),
    rectangularSelection(),
    indentOnInput(),
    indentUnit.of(written?.language.name === "python" ? "    " : "  "),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    syntaxHighlighting(pygments),
    syntaxHighlighting(keysOfJson),
    EditorView.contentAttributes.of({ class: "code" }),
    // Tab indents; Escape and then Tab leaves the editor, which CodeMirror does of itself.
    keymap.of([...searchKeymap, ...historyKeymap, indentWithTab, ...defaultKeymap]),
    written?.language.name === "markdown" ? EditorView.lineWrapping : [],
    written ?? [],
  ];
}

export { EditorState, EditorView };
