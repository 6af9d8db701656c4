// What a pipeline answers, as something to read: records as a table, the answers of memory blocks as sentences.
// Every text becomes a text node, so that nothing that was said can become part of the page.
"use strict";

const answers = (() => {
  const MOST_RECORDS = 100, MOST_CHARACTERS = 4000, MOST_EXPLAINED = 40000;

  function make(name, text, className) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function clipped(text, most = MOST_CHARACTERS) {
    return text.length > most ? `${text.slice(0, most)} … (${text.length} characters)` : text;
  }

  function isRecord(value) {
    return value !== null && typeof value === "object" && typeof value.guid === "string" && typeof value.content === "string";
  }

  function moment(unix_ms) {
    const then = new Date(unix_ms);
    return Number.isNaN(then.getTime()) ? "" : then.toLocaleString("sv-SE").slice(0, 16);
  }

  function rowOf(record) {
    const row = make("tr"), content = make("td", clipped(record.content), "content");
    const tags = Array.isArray(record.tags) ? record.tags : [];
    const kind = [record.kind, ...tags].filter((word) => typeof word === "string").join(", ");
    content.append(make("code", record.guid));
    row.append(make("td", moment(record.created_at), "when"), content, make("td", kind));
    return row;
  }

  function tableOf(records) {
    const box = make("div", undefined, "scrolls"), table = make("table", undefined, "records"), head = make("tr"), body = make("tbody");
    for (const name of ["Written", "Content and guid", "Kind, tags"]) {
      const cell = make("th", name);
      cell.scope = "col";
      head.append(cell);
    }
    body.append(...records.slice(0, MOST_RECORDS).map(rowOf));
    table.append(make("thead"), body);
    table.tHead.append(head);
    box.append(table);
    box.tabIndex = 0;
    if (records.length > MOST_RECORDS) box.append(make("p", `… and ${records.length - MOST_RECORDS} more; curl shows them all.`, "aside"));
    return box;
  }

  function sentenceOf(value) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
    if ("error" in value) return make("p", `Error: ${clipped(String(value.error))}`, "bad");
    if ("skipped" in value) return make("p", `Nothing was done: ${clipped(String(value.skipped))}`);
    if (value.deleted === 0) return make("p", "Nothing was deleted: no record has this guid.");
    if (typeof value.deleted === "number") return make("p", `Deleted ${value.deleted} record${value.deleted === 1 ? "" : "s"}.`);
    if (typeof value.guid !== "string") return null;
    const sentence = make("p", value.created === false || value.appended ? "Appended to " : "Written as ");
    sentence.append(make("code", value.guid));
    return sentence;
  }

  // What a search with `explain` answers: the records as without it, and why, for who wants to know.
  function explainedOf({ records, explanation }) {
    const found = make("div"), why = make("details"), nothing = explanation.nothing;
    found.append(nothing ? make("p", `Nothing found: ${clipped(String(nothing.detail))}.`) : tableOf(records));
    why.append(make("summary", "How this was found"), make("pre", clipped(JSON.stringify(explanation, null, 2), MOST_EXPLAINED)));
    found.append(why);
    return found;
  }

  function isExplained(value) {
    return Array.isArray(value?.records) && value.records.every(isRecord) && value.explanation !== null
      && typeof value.explanation === "object";
  }

  function nodeOf(value) {
    if (Array.isArray(value) && !value.length) return make("p", "Nothing found.");
    if (Array.isArray(value) && value.every(isRecord)) return tableOf(value);
    if (isRecord(value)) return tableOf([value]);
    if (isExplained(value)) return explainedOf(value);
    return sentenceOf(value) ?? make("pre", clipped(JSON.stringify(value, null, 2)));
  }

  // One result: who says it, and what.
  function show(envelope) {
    const part = envelope?.args?.[0] ?? {}, text = String(part.text ?? ""), box = make("div", undefined, "answer");
    box.append(make("p", String(envelope?.from ?? ""), "who"));
    try {
      box.append(part.type === "application/json" ? nodeOf(JSON.parse(text)) : make("p", clipped(text), "what"));
    } catch {
      box.append(make("p", clipped(text), "what"));
    }
    return box;
  }

  return { clipped, make, show };
})();
