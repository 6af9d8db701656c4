// Makes one form field from a JSON Schema. A field that is emptied is left out of the bundle, so its default applies.

import { h, prose } from "./dom.js";
import { makeSecretBox } from "./secrets.js";
import { makeTester } from "./testers.js";

const LONG = /prompt|template|text|body|description|desc$/;
const SECRET_HELP = "The name of a secret, never its value: env:NAME is a variable of the server, file:NAME a file in its secrets folder.";
let numbers = 0;

// Returns the schema with its reference followed, without null as a choice.
export function resolve(schema, defs) {
  let found = schema ?? {};
  for (let step = 0; found.$ref && step < 8; step += 1) found = { ...defs?.[found.$ref.split("/").at(-1)], ...withoutRef(found) };
  const choices = (found.anyOf ?? found.oneOf ?? []).filter((one) => one.type !== "null");
  if (choices.length === 1) return resolve({ ...found, anyOf: undefined, oneOf: undefined, ...choices[0], description: found.description ?? choices[0].description, default: found.default }, defs);
  return choices.length ? { ...found, choices: choices.map((one) => resolve(one, defs)) } : found;
}

const withoutRef = ({ $ref: _, ...rest }) => rest;

export const titleOf = (key, schema) => schema.label ?? (schema.title && !schema.title.includes("_") ? sentence(schema.title) : sentence(key.replace(/^(wf_webhook_|wf_|agent_|pipeline_)/, "").replaceAll("_", " ")));
const sentence = (text) => (text.charAt(0).toUpperCase() + text.slice(1).toLowerCase()).replace(/\b(url|uid|id|api|json|sql)\b/gi, (word) => word.toUpperCase());

// Which control shows a schema.
export function kindOf(key, schema, value) {
  const has = (type) => schema.type === type || schema.choices?.some((one) => one.type === type);
  const names = schema.enum ?? schema.choices?.find((one) => one.enum)?.enum;
  if (names && (value === undefined || names.includes(value))) return "select";
  if (has("boolean") && typeof value !== "string") return "checkbox";
  if (["integer", "number"].includes(schema.type)) return "number";
  if (schema.type === "array" && isTexts(schema.items) && isTextList(value)) return "list";
  if (schema.choices && has("array") && has("string") && isTextList(value)) return "list";
  if (has("string") && (value === undefined || typeof value === "string")) return LONG.test(key) || schema.format === "template" ? "text" : "line";
  return "json";
}

const isTexts = (items) => items?.type === "string" || Boolean(items?.pattern);
const isTextList = (value) => value === undefined || (Array.isArray(value) && value.every((one) => typeof one === "string"));
const show = (value) => (typeof value === "string" ? value : JSON.stringify(value));
const isDefault = (value) => value === undefined || value === null || value === "" || (Array.isArray(value) && !value.length);

// `field` has key, schema (resolved), value, isRequired, lists (datalists by name), change(value) and fault(text).
// Returns the element. Its control has the name of the key.
export function makeField(field) {
  const { key, schema, value, isRequired } = field, kind = kindOf(key, schema, value), id = `field-${(numbers += 1)}`;
  const help = h("p", { class: "note help", id: `${id}-help` }, prose(helpText(schema)), schema.format === "secret" ? ` ${SECRET_HELP}` : null);
  const fault = h("p", { class: "bad fault", id: `${id}-fault`, hidden: true });
  const control = MAKERS[kind]({ ...field, report: (text) => setFault(control, fault, text) });
  for (const [name, one] of [["id", id], ["name", key], ["data-key", key], ["aria-describedby", `${id}-help ${id}-fault`], ["autocomplete", "off"], ["spellcheck", "false"]]) control.setAttribute(name, one);
  const title = [titleOf(key, schema), isRequired && h("span", { class: "note" }, " required")];
  const label = kind === "checkbox" ? h("label", { class: "check", for: id }, control, " ", title) : [h("label", { for: id }, title), control];
  const tester = ["regex", "jmespath", "template"].includes(schema.format) && makeTester(schema.format, () => control.value, field.flags, field.group);
  const use = (reference) => { control.value = reference; control.dispatchEvent(new Event("input")); };
  const secret = schema.format === "secret" && field.store && makeSecretBox(field.store, `${field.store.prefix}${key.replace(/^wf_webhook_/, "")}`.replaceAll("_", "-").slice(0, 64), value, use);
  return h("div", { class: "field", "data-field": key }, label, fault, tester, secret, help);
}

const helpText = (schema) => (schema.description ?? "").replace(/\s+/g, " ").replace(/\[([^\]]+)\]\([^)]*\)/g, "$1");

export function setFault(control, box, text) {
  box.replaceChildren(...prose(text));
  box.hidden = !text;
  if (text) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}

const placeholder = (schema) => (isDefault(schema.default) ? "" : show(schema.default));

function readNumber(text, schema) {
  const number = Number(text);
  return text.trim() === "" ? undefined : Number.isFinite(number) && (schema.type !== "integer" || Number.isInteger(number)) ? number : text;
}

const MAKERS = {
  line: ({ schema, value, change, lists }) => {
    const list = schema.format === "store" ? lists?.store : schema.format === "secret" ? lists?.secret : lists?.[schema.list];
    return h("input", { type: "text", value: value ?? "", list, placeholder: placeholder(schema), oninput: ({ target }) => {
      change(target.value === "" ? undefined : target.value);
    } });
  },
  text: ({ schema, value, change }) => h("textarea", { rows: Math.min(10, Math.max(2, String(value ?? "").split("\n").length + 1)), value: value ?? "", placeholder: placeholder(schema), oninput: ({ target }) => change(target.value === "" ? undefined : target.value) }),
  number: ({ schema, value, change }) => h("input", { type: "text", inputmode: "decimal", value: value ?? "", placeholder: placeholder(schema), oninput: ({ target }) => change(readNumber(target.value, schema)) }),
  checkbox: ({ schema, value, change }) => h("input", { type: "checkbox", checked: value ?? schema.default ?? false, onchange: ({ target }) => change(target.checked === (schema.default ?? false) && value === undefined ? undefined : target.checked) }),
  select: ({ schema, value, change, isRequired }) => {
    const names = schema.enum ?? schema.choices.find((one) => one.enum).enum, usual = isDefault(schema.default) ? "" : ` (${show(schema.default)})`;
    const options = names.filter((one) => one !== "").map((one) => h("option", { value: String(one), selected: one === value }, String(one)));
    return h("select", { onchange: ({ target }) => change(names.find((one) => String(one) === target.value && one !== "")) }, isRequired && value !== undefined ? null : h("option", { value: "" }, `Default${usual}`), options);
  },
  list: ({ schema, value, change }) => h("textarea", { rows: Math.min(8, Math.max(2, (value?.length ?? 0) + 1)), value: (value ?? []).join("\n"), placeholder: isDefault(schema.default) ? "one per line" : schema.default.join?.("\n") ?? "", oninput: ({ target }) => {
    const items = target.value.split("\n").filter((one) => one.trim());
    change(items.length ? items : undefined);
  } }),
  json: ({ schema, value, change, report }) => h("textarea", { class: "code", rows: Math.min(12, Math.max(2, JSON.stringify(value ?? "", null, 1).split("\n").length)), value: value === undefined ? "" : JSON.stringify(value, null, 1), placeholder: isDefault(schema.default) ? "JSON" : show(schema.default), oninput: ({ target }) => {
    if (!target.value.trim()) return report("") ?? change(undefined);
    try {
      const parsed = JSON.parse(target.value);
      report("");
      return change(parsed);
    } catch (error) {
      return report(/^[[{"]/.test(target.value.trim()) || schema.type ? `Not valid JSON: ${error.message}` : "Not valid JSON.");
    }
  } }),
};

