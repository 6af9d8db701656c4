// Reads {name: document} as JSON from stdin, and writes the diagnostics of the AsyncAPI parser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const load = createRequire(`${process.env.NPM_PACKAGES}/`);
const { Parser } = load("@asyncapi/parser");
const parser = new Parser();
const found = [];
for (const [name, document] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  const { diagnostics } = await parser.parse(document);
  for (const { severity, code, path, message } of diagnostics) {
    found.push(`${name}: ${severity} ${code} at ${path.join(".")}: ${message}`);
  }
}
console.log(JSON.stringify(found));
