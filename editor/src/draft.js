// The draft: the bundle that the graph, the forms and the JSON view edit together, with undo and redo. It is kept for
// this tab, so a reload does not lose it.

import { keepExclusions } from "./bundle.js";

const MAX_UNDO = 200, MERGE_MS = 1000, KEEP_MS = 300;

export class Draft extends EventTarget {
  // `source` is the deployed bundle, {} for a new one; `hash` is its ETag.
  constructor(key, source, hash) {
    super();
    this.key = key;
    this.hash = hash;
    this.source = source;
    this.bundle = source;
    this.text = "";   // the JSON as it was typed, "" if the bundle has changed since
    this.isBroken = false;   // the typed text is no JSON
    this.selected = -1;   // the index of an agent, -1 for none
    this.past = [];
    this.future = [];
    this.merging = { key: "", at: 0 };
  }

  // Changes the bundle. Changes with the same `merge` within a second are undone together. `by` names the part that
  // made the change.
  change(make, { merge = "", by = "", select } = {}) {
    const next = keepExclusions(this.bundle, make(this.bundle));
    if (next === this.bundle) return;
    const now = Date.now(), isMerged = merge && merge === this.merging.key && now - this.merging.at < MERGE_MS;
    if (!isMerged) this.past.push([this.bundle, this.selected]);
    if (this.past.length > MAX_UNDO) this.past.shift();
    this.merging = { key: merge, at: now };
    this.future = [];
    this.text = "";
    this.isBroken = false;
    this.show(next, select ?? this.selected, by);
  }

  // Takes a text from the JSON view. A text that is not JSON leaves the bundle as it is.
  type(text) {
    let bundle = null;
    try {
      bundle = JSON.parse(text);
    } catch { /* the check reports it with its line */ }
    const isBundle = bundle !== null && typeof bundle === "object" && !Array.isArray(bundle);
    if (isBundle) this.change(() => bundle, { merge: "json", by: "json" });
    this.text = text;
    this.isBroken = !isBundle;
    this.keep();
    this.dispatchEvent(new CustomEvent("change", { detail: { by: "json" } }));
  }

  show(bundle, selected, by) {
    this.bundle = bundle;
    this.selected = Math.min(selected, (bundle.agents?.length ?? 0) - 1);
    this.keep();
    this.dispatchEvent(new CustomEvent("change", { detail: { by } }));
  }

  step(from, to) {
    const last = from.pop();
    if (!last) return false;
    to.push([this.bundle, this.selected]);
    this.merging.key = "";
    this.text = "";
    this.isBroken = false;
    this.show(...last, "undo");
    return true;
  }

  undo() { return this.step(this.past, this.future); }
  redo() { return this.step(this.future, this.past); }

  select(at, by = "") {
    if (at === this.selected) return;
    this.selected = at;
    this.dispatchEvent(new CustomEvent("select", { detail: { by } }));
  }

  get json() { return this.text || JSON.stringify(this.bundle, null, 2); }
  get isChanged() { return this.isBroken || (this.bundle !== this.source && JSON.stringify(this.bundle) !== JSON.stringify(this.source)); }

  // Stores the draft soon. A draft without changes is removed.
  keep() {
    clearTimeout(this.keeping);
    this.keeping = setTimeout(() => this.keepNow(), KEEP_MS);
  }

  keepNow() {
    clearTimeout(this.keeping);
    if (this.isDone || !this.isChanged) return sessionStorage.removeItem(this.key);
    try {
      sessionStorage.setItem(this.key, JSON.stringify({ text: this.json, hash: this.hash, at: Date.now() }));
    } catch { /* a full storage only loses the draft at a reload */ }
  }

  // Takes back the draft of an earlier load. Returns {at, isOld} or null.
  restore() {
    let kept;
    try {
      kept = JSON.parse(sessionStorage.getItem(this.key));
    } catch { /* no draft */ }
    if (!kept?.text) return null;
    const isOld = kept.hash !== this.hash;
    this.hash = kept.hash;   // a deploy then finds the conflict
    this.type(kept.text);
    if (!this.isBroken) this.text = "";
    this.past = [];
    if (!this.isChanged) return this.keepNow() ?? null;
    return { at: kept.at, isOld };
  }

  // Ends the draft: it was deployed or discarded.
  end() {
    this.isDone = true;
    clearTimeout(this.keeping);
    sessionStorage.removeItem(this.key);
  }
}
