// Writes beside the built files what they are made of (VENDORED.json), and under which terms
// (LICENSES.txt).  The list of CodeMirror's parts is esbuild's own: what the bundle really holds.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { argv } from "node:process";

const vendor = argv[2];
const modules = "node_modules/";
const read = (path) => readFileSync(path, "utf-8").replaceAll("\r\n", "\n");
const sha256 = (name) => createHash("sha256").update(readFileSync(join(vendor, name))).digest("hex");

function bundled() {
  const { outputs } = JSON.parse(read(join(modules, ".made-of.json")));
  const sources = Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs));
  const named = sources.filter((path) => path.startsWith(modules)).map((path) => {
    const [scope, name] = path.slice(modules.length).split("/");
    return scope.startsWith("@") ? `${scope}/${name}` : scope;
  });
  return [...new Set(named)].sort();
}

function described(name) {
  const { version, license } = JSON.parse(read(join(modules, name, "package.json")));
  return { name, version, licence: license };
}

// Each text once, below the names of all that it holds for.
function licences(names) {
  const holders = new Map();
  for (const name of names) {
    const text = read(join(modules, name, "LICENSE")).trim();
    holders.set(text, [...(holders.get(text) ?? []), name]);
  }
  return [...holders].map(([text, held]) => `${held.join("\n")}\n\n${text}\n`);
}

const madeOf = { "codemirror.js": bundled(), "htmx.min.js": ["htmx.org"] };
const rule = `\n${"-".repeat(80)}\n\n`;
writeFileSync(join(vendor, "LICENSES.txt"), licences(Object.values(madeOf).flat()).join(rule));

const files = Object.entries(madeOf).map(([file, names]) => [
  file, { sha256: sha256(file), packages: names.map(described) },
]);
files.push(["LICENSES.txt", { sha256: sha256("LICENSES.txt"), packages: [] }]);
writeFileSync(join(vendor, "VENDORED.json"), `${JSON.stringify(Object.fromEntries(files), null, 2)}\n`);
