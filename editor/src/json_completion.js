// Completion of a bundle in JSON: keys and values from its schema, names of blocks and swarms from the bundle.

import { agentsOf, listSwarms, nameOf } from "./bundle.js";

const SWARM_KEYS = ["agent_rec_swarm", "agent_send_swarm", "on_mismatch"];
const clean = (text) => (text ?? "").replace(/\s+/g, " ");

function follow(schema, defs) {
  let found = schema ?? {};
  for (let step = 0; found.$ref && step < 8; step += 1) found = { ...defs[found.$ref.split("/").at(-1)], ...{ ...found, $ref: undefined } };
  const choices = found.anyOf ?? found.oneOf;
  if (!choices) return found;
  const objects = choices.map((one) => follow(one, defs));
  return { ...(objects.find((one) => one.properties) ?? {}), ...found, enum: found.enum ?? objects.find((one) => one.enum)?.enum, items: found.items ?? objects.find((one) => one.items)?.items };
}

// Returns the keys and indexes that lead to a node, and the object or list that holds it.
function findPath(node, read) {
  const path = [];
  for (let current = node; current?.parent; current = current.parent) {
    const { parent } = current;
    if (parent.name === "Property" && current.name !== "PropertyName") {
      const name = parent.getChild("PropertyName");
      if (name) path.unshift(JSON.parse(read(name)));
    }
    if (parent.name === "Array") {
      let at = 0;
      for (let before = current.prevSibling; before; before = before.prevSibling) if (!["[", ",", "⚠"].includes(before.name)) at += 1;
      path.unshift(at);
    }
  }
  return path;
}

function schemaAt(path, { schema, blocks, bundle }) {
  let found = follow(schema, schema.$defs), defs = schema.$defs;
  for (let step = 0; step < path.length; step += 1) {
    const key = path[step];
    if (key === "wf_webhook_args" && path[0] === "agents") {
      const args = blocks.get(agentsOf(bundle())[path[1]]?.wf_diagram_webhook)?.args_schema ?? {};
      [found, defs] = [args, args.$defs ?? {}];
    } else {
      found = follow(typeof key === "number" ? found.items : found.properties?.[key], defs ?? {});
    }
  }
  return found;
}

function values(path, found, { blocks, bundle }) {
  const key = path.at(-1);
  if (key === "wf_diagram_webhook") return [...blocks.values()].map((one) => ({ label: one.name, info: one.summary }));
  if (SWARM_KEYS.includes(key)) return listSwarms(bundle()).map((label) => ({ label }));
  if (key === "agent_from" || path.at(-2) === "agent_from") return agentsOf(bundle()).map(nameOf).filter(Boolean).map((label) => ({ label }));
  if (found.type === "boolean") return [true, false];
  return found.enum ?? [];
}

// Returns what CodeMirror shows at the cursor, or null.
export function completeBundle(context, tree, sources) {
  const { state, pos, explicit } = context, read = (node) => state.sliceDoc(node.from, node.to), node = tree.resolveInner(pos, -1);
  const word = context.matchBefore(/"[^"\n]*"?|[\w]*/), isKey = node.name === "PropertyName" || node.name === "Object" || (node.name === "⚠" && node.parent.name === "Object");
  if (!explicit && !word.text) return null;
  const holder = isKey ? (node.name === "Object" ? node : node.parent.name === "Property" ? node.parent.parent : node.parent) : null;
  const from = ["PropertyName", "String"].includes(node.name) ? node.from : word.from, to = ["PropertyName", "String"].includes(node.name) ? node.to : pos;
  if (holder) {
    const { properties = {} } = schemaAt(findPath(holder, read), sources), used = new Set(holder.getChildren("Property").map((one) => one.getChild("PropertyName")).filter((one) => one && one.from !== node.from).map((one) => JSON.parse(read(one))));
    const hasColon = /^\s*:/.test(state.sliceDoc(to, to + 20));
    const options = Object.entries(properties).filter(([key]) => !used.has(key)).map(([key, one]) => ({ label: `"${key}"`, type: "property", info: clean(one.description), apply: `"${key}"${hasColon ? "" : ": "}` }));
    return { from, to, options, filter: true };
  }
  const place = node.name === "Property" || node.name === "Array" ? null : node, base = place ? findPath(place, read) : findPath({ parent: node, name: "", prevSibling: null }, read);
  const options = values(base, schemaAt(base, sources), sources).map((one) => (typeof one === "object" ? { ...one, label: JSON.stringify(one.label) } : { label: JSON.stringify(one) }));
  return options.length ? { from, to, options } : null;
}
