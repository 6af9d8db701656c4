// Renders results for reading: records as a table, answers of memory blocks as sentences.
// All text becomes text nodes, so no message can inject HTML.
"use strict";

const results = (() => {
  const MAX_RECORDS = 100, MAX_CHARACTERS = 4000, MAX_EXPLANATION_CHARACTERS = 40000;

  function make(name, text, className) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function clip(text, max = MAX_CHARACTERS) {
    return text.length > max ? `${text.slice(0, max)} … (${text.length} characters)` : text;
  }

  function isRecord(value) {
    return value !== null && typeof value === "object" && typeof value.guid === "string" && typeof value.content === "string";
  }

  function formatTime(unix_ms) {
    const then = new Date(unix_ms);
    return Number.isNaN(then.getTime()) ? "" : then.toLocaleString("sv-SE").slice(0, 16);
  }

  function makeRow(record) {
    const row = make("tr"), content = make("td", clip(record.content), "content");
    const tags = Array.isArray(record.tags) ? record.tags : [];
    const kind = [record.kind, ...tags].filter((word) => typeof word === "string").join(", ");
    content.append(make("code", record.guid));
    row.append(make("td", formatTime(record.created_at), "when"), content, make("td", kind));
    return row;
  }

  function makeTable(records) {
    const box = make("div", undefined, "scrolls"), table = make("table", undefined, "records"), head = make("tr"), body = make("tbody");
    for (const name of ["Written", "Content and guid", "Kind, tags"]) {
      const cell = make("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    body.append(...records.slice(0, MAX_RECORDS).map(makeRow));
    table.append(make("thead"), body);
    table.tHead.append(head);
    box.append(table);
    box.tabIndex = 0;
    if (records.length > MAX_RECORDS) box.append(make("p", `… and ${records.length - MAX_RECORDS} more; use curl to get all of them.`, "note"));
    return box;
  }

  function makeSentence(value) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
    if ("error" in value) return make("p", `Error: ${clip(String(value.error))}`, "bad");
    if ("skipped" in value) return make("p", `Skipped: ${clip(String(value.skipped))}`);
    if (value.deleted === 0) return make("p", "Nothing was deleted: no record has this guid.");
    if (typeof value.deleted === "number") return make("p", `Deleted ${value.deleted} record${value.deleted === 1 ? "" : "s"}.`);
    if (typeof value.guid !== "string") return null;
    const sentence = make("p", value.created === false || value.appended ? "Appended to " : "Written as ");
    sentence.append(make("code", value.guid));
    return sentence;
  }

  // The result of a search with `explain`: the records, with the explanation below.
  function makeExplained({ records, explanation }) {
    const found = make("div"), details = make("details"), nothing = explanation.nothing;
    found.append(nothing ? make("p", `Nothing found: ${clip(String(nothing.detail))}.`) : makeTable(records));
    details.append(make("summary", "How this was found"), make("pre", clip(JSON.stringify(explanation, null, 2), MAX_EXPLANATION_CHARACTERS)));
    found.append(details);
    return found;
  }

  function isExplained(value) {
    return Array.isArray(value?.records) && value.records.every(isRecord) && value.explanation !== null
      && typeof value.explanation === "object";
  }

  function makeNode(value) {
    if (Array.isArray(value) && !value.length) return make("p", "Nothing found.");
    if (Array.isArray(value) && value.every(isRecord)) return makeTable(value);
    if (isRecord(value)) return makeTable([value]);
    if (isExplained(value)) return makeExplained(value);
    return makeSentence(value) ?? make("pre", clip(JSON.stringify(value, null, 2)));
  }

  // One result: its sender and its text.
  function show(envelope) {
    const part = envelope?.args?.[0] ?? {}, text = String(part.text ?? ""), box = make("div", undefined, "answer");
    box.append(make("p", String(envelope?.from ?? ""), "sender"));
    try {
      box.append(part.type === "application/json" ? makeNode(JSON.parse(text)) : make("p", clip(text), "text"));
    } catch {
      box.append(make("p", clip(text), "text"));
    }
    return box;
  }

  return { clip, make, show };
})();
