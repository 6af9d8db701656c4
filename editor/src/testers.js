// Tries a pattern, a JMESPath expression or a template on a text, on the server: the same libraries decide there.

import { ask } from "./api.js";
import { button, h, prose } from "./dom.js";

const EXAMPLES = { regex: "/note buy tea", jmespath: '{"action": "opened", "issue": {"title": "The kettle leaks"}}', template: '{"name": "Ada"}' };
const LABELS = { regex: "Text", jmespath: "JSON", template: "JSON or text" };
const kept = new Map();   // the last text for each kind

function describe(kind, { valid, fault, result }, published) {
  if (!valid) return [h("p", { class: "bad" }, prose(fault))];
  if (kind !== "regex") return [h("pre", { class: "result" }, typeof result === "string" ? result : JSON.stringify(result, null, 1))];
  if (!result.matched) return [h("p", {}, "No match.")];
  const groups = Object.entries(result.groups ?? {});
  return [h("p", { class: "good" }, "It matches."), groups.length ? h("pre", { class: "result" }, groups.map(([name, text]) => `${name}: ${text ?? ""}${name === published ? "  ← is published" : ""}`).join("\n")) : null];
}

// `readPattern` returns the pattern, and `flags` those of a regular expression, `group` the group that its
// block publishes.
export function makeTester(kind, readPattern, flags = () => "", group = null) {
  const outcome = h("div", { role: "status" });
  const text = h("textarea", { rows: 2, value: kept.get(kind) ?? EXAMPLES[kind], spellcheck: "false", oninput: ({ target }) => { kept.set(kind, target.value); } });
  const run = async () => {
    const body = { kind, pattern: readPattern(), text: text.value, ...(kind === "regex" && flags() ? { flags: flags() } : {}) };
    const answer = await ask("POST", "/v1/patterns/test", { json: body });
    outcome.replaceChildren(...(answer.ok ? describe(kind, answer.body, group && (group() || ("1" in (answer.body.result?.groups ?? {}) ? "1" : "0"))) : [h("p", { class: "bad" }, calls.describe(answer))]).filter(Boolean));
  };
  return h("details", { class: "tester" }, h("summary", {}, "Test it"), h("label", {}, LABELS[kind], text), button("Test", run, { class: "quiet" }), outcome);
}
