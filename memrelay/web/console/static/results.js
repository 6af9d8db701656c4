// Renders results for reading: records as a table, answers of memory blocks as sentences.
// All text becomes text nodes, so no message can inject HTML.
"use strict";

const results = (() => {
  const { make } = dom, MAX_RECORDS = 100, MAX_CHARACTERS = 4000, MAX_EXPLANATION_CHARACTERS = 40000;

  function clip(text, max = MAX_CHARACTERS) {
    return text.length > max ? `${text.slice(0, max)} … (${text.length} characters)` : text;
  }

  function isRecord(value) {
    return value !== null && typeof value === "object" && typeof value.guid === "string" && typeof value.content === "string";
  }

  const LOCAL = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };

  function formatTime(unix_ms) {
    const then = new Date(unix_ms);
    return Number.isNaN(then.getTime()) ? "" : then.toLocaleString("sv-SE", LOCAL);
  }

  function makeRow(record) {
    const tags = Array.isArray(record.tags) ? record.tags : [];
    const kind = [record.kind, ...tags].filter((word) => typeof word === "string").join(", ");
    const content = make("td", [clip(record.content), make("code", record.guid)], "content");
    return make("tr", [make("td", formatTime(record.created_at), "when"), content, make("td", kind)]);
  }

  function makeTable(records) {
    const head = make("tr", ["Written", "Content and guid", "Kind, tags"].map((name) => make("th", name)));
    const body = make("tbody", records.slice(0, MAX_RECORDS).map(makeRow));
    const box = make("div", make("table", [make("thead", head), body], "records"), "scrolls");
    for (const cell of head.cells) cell.scope = "col";
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
    return make("p", [value.created === false || value.appended ? "Appended to " : "Written as ", make("code", value.guid)]);
  }

  // The result of a search with `explain`: the records, with the explanation below.
  function makeExplained({ records, explanation }) {
    const { nothing } = explanation, text = clip(JSON.stringify(explanation, null, 2), MAX_EXPLANATION_CHARACTERS);
    const details = make("details", [make("summary", "How this was found"), make("pre", text)]);
    return make("div", [nothing ? make("p", `Nothing found: ${clip(String(nothing.detail))}.`) : makeTable(records), details]);
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
    const part = envelope?.args?.[0] ?? {}, text = String(part.text ?? "");
    let node = make("p", clip(text), "text");
    try {
      if (part.type === "application/json") node = makeNode(JSON.parse(text));
    } catch { /* not JSON: shown as text */ }
    return make("div", [make("p", String(envelope?.from ?? ""), "sender"), node], "answer");
  }

  return { clip, show };
})();
