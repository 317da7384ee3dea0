// Answer questions with the search of a built site: its own script and index, without a browser.
// node tests/site_search.js FOLDER QUESTION...  prints a JSON array of page names, best first, for each question.
"use strict";
const fs = require("fs");
const vm = require("vm");

const [folder, ...questions] = process.argv.slice(2);
const silent = { error() {}, warn() {}, log() {}, info() {}, debug() {} };
const element = () => ({ dataset: {}, classList: { add() {} }, querySelectorAll: () => [], addEventListener() {} });
const page = {
  ...element(), documentElement: element(), body: element(), readyState: "loading",
  getElementById: () => null, createElement: element,
};
const context = vm.createContext({ document: page, localStorage: { setItem() {} }, console: silent, URLSearchParams });
context.window = context;
context.location = { search: "" };
const html = fs.readFileSync(`${folder}/search.html`, "utf-8");
for (const [, script] of html.matchAll(/<script[^>]* src="([^"?]+)/g)) {
  // The scripts of the theme draw, and copy code.
  if (/documentation_options|doctools|sphinx_highlight|language_data|searchtools|scorer|searchindex/.test(script)) {
    vm.runInContext(fs.readFileSync(`${folder}/${script}`, "utf-8"), context);
  }
}
context.questions = questions;
const answers = vm.runInContext(
  "questions.map((question) => Search._performSearch(...Search._parseQuery(question)).reverse().map((result) => result[0]))",
  context,
);
console.log(JSON.stringify(answers));
