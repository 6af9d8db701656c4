// The editor of pipelines: puts its parts on the pages /pipelines/new and /pipelines/UID/edit.

import { ask } from "./api.js";
import { addAgent, agentsOf, labelOf, removeAgent } from "./bundle.js";
import { Checker } from "./check.js";
import { Deployer, uidFrom } from "./deploy.js";
import { button, h } from "./dom.js";
import { Draft } from "./draft.js";
import { describeFault, Form } from "./form.js";
import { Graph } from "./graph.js";
import { Palette } from "./palette.js";
import { chooseTemplate } from "./templates.js";
import { Tryer } from "./try.js";

const FIELDS = "input, textarea, select, [contenteditable], .json-host";
const HELP = [
  ["← → ↑ ↓", "Move between blocks"], ["Enter", "Open the form of the block"], ["Esc", "Back to the graph"], ["a", "Add a block behind the selected one"], ["c", "Connect the block to another one"], ["d", "Duplicate"], ["Delete", "Remove the block"],
  ["Ctrl+Z", "Undo"], ["Ctrl+Shift+Z", "Redo"], ["t", "Test a message"], ["?", "This help"],
];
const NARROW = "(max-width: 55.99rem)";
const host = document.getElementById("editor");

// As the console shows times: the date only if it is another day.
function showTime(ms) {
  const [day, time] = new Date(ms).toISOString().slice(0, 19).split("T"), today = new Date().toISOString().slice(0, 10);
  return `${day === today ? "" : `${day} `}${time} UTC`;
}

async function load(uid) {
  const paths = ["/v1/blocks", "/v1/bundle.schema.json", uid ? `/v1/pipelines/${encodeURIComponent(uid)}` : "/v1/pipeline-templates"];
  const answers = await Promise.all(paths.map((path) => ask("GET", path))), bad = answers.find((one) => !one.ok);
  if (bad) throw new Error(calls.describe(bad));
  return answers;
}

async function start() {
  const { uid = "", samples = "{}" } = host.dataset;
  try {
    const [blocks, schema, third] = await load(uid), shared = { blocks: blocks.body.items, schema: schema.body, samples: JSON.parse(samples) };
    if (uid) return new Editor({ ...shared, source: third.body.bundle, hash: third.etag, uid });
    const kept = new Draft("draft:new", {}, "");
    if (kept.restore()) return new Editor({ ...shared, source: {}, hash: "", uid: "", draft: kept });
    return chooseTemplate(host, third.body.items, (bundle) => {
      const draft = new Draft("draft:new", {}, "");
      draft.bundle = bundle;
      new Editor({ ...shared, source: {}, hash: "", uid: "", draft });
      draft.keep();
    });
  } catch (error) {
    return host.replaceChildren(h("p", { class: "bad", role: "alert" }, error.message));
  }
}

class Editor {
  constructor({ blocks, schema, samples, source, hash, uid, draft }) {
    this.blocks = new Map(blocks.map((one) => [one.name, one]));
    this.isNew = !uid;
    this.schema = schema;
    this.draft = draft ?? new Draft(`draft:${calls.root}/${uid}`, source, hash);
    this.uidOf = () => uid || uidFrom(this.draft.bundle);
    const kept = draft ? null : this.draft.restore(), rights = host.dataset;
    this.graph = new Graph(this.draft, new Map(blocks.map((one) => [one.name, one.group])), {
      open: (_, isFocused) => this.openForm(isFocused), remove: () => this.remove(), tell: (text) => this.tell(text),
      drop: (name, at) => { const choice = this.palette.find(name); if (choice) this.add(choice, at >= 0 ? at : this.draft.selected); },
    });
    this.palette = new Palette(blocks, (choice) => this.add(choice, this.draft.selected));
    this.form = new Form(this.draft, { blocks: this.blocks, schema, isNew: this.isNew, mayStore: "admin" in rights, publicUrl: rights.publicUrl ?? "", check: () => this.checker.run(), uidOf: this.uidOf, focusGraph: () => this.graph.focus(), remove: () => this.remove(), connect: (at) => this.graph.startConnecting(at) });
    this.checker = new Checker(this.draft, this.uidOf, { isNew: this.isNew, show: (faults) => this.showFaults(faults), open: (at, key, fault) => this.openFault(at, key, fault) });
    this.tryer = new Tryer(this.draft, { isNew: this.isNew, mayRead: "read" in rights, samples, uidOf: this.uidOf, graph: this.graph });
    this.deployer = new Deployer(this.draft, { isNew: this.isNew, uidOf: this.uidOf, number: Number(rights.number ?? 0), checker: this.checker });
    this.build(kept);
    this.listen();
    this.graph.draw();
    this.graph.fit(0.7);
    this.sizeStage();
    this.form.draw();
    this.checker.run();
    for (const link of document.querySelectorAll("[data-secret-of]")) link.addEventListener("click", (event) => this.openSecret(event, link.dataset));
  }

  openSecret(event, { secretOf, key }) {
    const at = agentsOf(this.draft.bundle).findIndex((one) => one.agent_alias === secretOf);
    if (at < 0) return;
    event.preventDefault();
    this.draft.select(at);
    this.form.focus(key);
  }

  build(kept) {
    const { dataset } = host;
    this.undo = button("Undo", () => this.draft.undo(), { class: "quiet", title: "Ctrl+Z" });
    this.redo = button("Redo", () => this.draft.redo(), { class: "quiet", title: "Ctrl+Shift+Z" });
    this.message = h("p", { class: "tell", role: "status" });
    // Keys in the JSON view are no shortcuts of the page.
    this.jsonHost = h("div", { class: "json-host", onkeydown: (event) => event.stopPropagation() });
    this.stage = h("div", { class: "stage", id: "stage", role: "tabpanel", "aria-labelledby": "tab-graph" }, this.graph.node, this.jsonHost, this.message);
    this.tabs = ["graph", "json"].map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "stage", onclick: () => this.open(name), onkeydown: (event) => this.pressTab(event) }, name === "graph" ? "Graph" : "JSON"));
    this.discard = button("Discard draft", () => this.discardDraft(), { class: "quiet" });
    const deploy = "deploy" in dataset ? button("Deploy…", () => this.deployer.open(), { id: "deploy" }) : null;
    const rehearse = dataset.rehearse ? button("Rehearse", () => this.rehearse(), { class: "quiet" }) : null;
    const bar = h("div", { class: "bar", role: "toolbar", "aria-label": "Draft" }, h("div", { role: "tablist", "aria-label": "View" }, this.tabs), this.checker.state, h("div", { class: "bar-buttons" }, this.undo, this.redo, this.discard, button("Keys", () => this.help.showModal(), { class: "quiet", title: "?" }), rehearse, deploy));
    this.help = h("dialog", { class: "keys", "aria-labelledby": "keys-title" }, h("h2", { id: "keys-title" }, "Keys of the editor"), h("dl", {}, HELP.map(([key, text]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)))), h("form", { method: "dialog", class: "buttons" }, h("button", { class: "quiet" }, "Close")));
    const note = kept ? h("p", { class: "notice" }, `Your draft of ${showTime(kept.at)} is open.`, kept.isOld ? " A newer version was deployed since." : "") : null;
    this.drawer = h("details", { class: "drawer" }, h("summary", {}, "Add a block"), this.palette.node);
    this.drawer.open = matchMedia("(min-width: 90rem)").matches;
    host.replaceChildren(...[note, bar, h("div", { class: "work" }, this.drawer, this.stage, this.form.node, h("div", { class: "below" }, this.checker.node, this.tryer.node)), this.help, this.deployer.node].filter(Boolean));
    host.classList.add("ready");
    this.open("graph");
    this.update();
  }

  listen() {
    this.draft.addEventListener("change", ({ detail }) => {
      this.update();
      this.sizeStage();
      if (this.json && detail.by !== "json") this.json.fill(this.draft.json);
    });
    document.addEventListener("keydown", (event) => this.press(event), true);
    addEventListener("pagehide", () => this.draft.keepNow());
  }

  update() {
    this.undo.disabled = !this.draft.past.length;
    this.redo.disabled = !this.draft.future.length;
    this.discard.hidden = !this.draft.isChanged && !this.isNew;
  }

  // A small graph leaves room for the test of a message. The height changes in steps, so that little moves.
  sizeStage() {
    const { layout, zoom } = this.graph, needed = Math.ceil((layout.height * zoom + 70) / 100) * 100;
    this.graph.hintAtRest();
    this.stage.style.height = this.view === "json" ? "" : `min(var(--stage), ${Math.max(300, needed)}px)`;
  }

  tell(text) { this.message.textContent = text; }

  add(choice, behind) {
    const before = agentsOf(this.draft.bundle).length;
    this.open("graph");
    this.draft.change((bundle) => addAgent(bundle, choice, behind), { select: before });
    this.tell(`Added ${labelOf(agentsOf(this.draft.bundle)[before])}.`);
    this.graph.focus(before);
    this.form.node.scrollTop = 0;
  }

  remove() {
    const at = this.draft.selected, agent = agentsOf(this.draft.bundle)[at];
    if (!agent) return;
    this.draft.change((bundle) => removeAgent(bundle, at), { select: -1 });
    this.tell(`Removed ${labelOf(agent)}. Ctrl+Z brings it back.`);
    this.graph.scroller.focus();
  }

  discardDraft() {
    this.draft.end();
    location.assign(location.pathname);
  }

  rehearse() {
    sessionStorage.setItem("candidate", this.draft.json);   // see upload.js
    this.draft.keepNow();
    location.assign(host.dataset.rehearse);
  }

  showFaults(faults) {
    const byAgent = new Map();
    for (const { pointer, severity } of faults) {
      const at = pointer.match(/^\/agents\/(\d+)/)?.[1];
      if (at !== undefined && severity !== "warning") byAgent.set(Number(at), (byAgent.get(Number(at)) ?? 0) + 1);
    }
    this.graph.setFaults(byAgent);
    this.form.showFaults(faults);
    this.json?.mark(faults.map((one) => ({ ...one, message: describeFault(one) })));
  }

  // A tap on a block of a small screen brings its form into view.
  openForm(isFocused) {
    if (isFocused) this.form.focus();
    else if (matchMedia(NARROW).matches) this.form.node.scrollIntoView({ block: "start" });
  }

  async openFault(at, key, { line }) {
    if (this.draft.isBroken) await this.open("json");
    if (this.view === "json") return this.json.open(line);
    this.draft.select(at);
    this.graph.reveal(at);
    return this.form.focus(key);
  }

  // ---- the views

  async open(name) {
    this.view = name;
    this.tabs.forEach((tab) => {
      const isOpen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(isOpen));
      tab.setAttribute("tabindex", isOpen ? "0" : "-1");
    });
    this.stage.setAttribute("aria-labelledby", `tab-${name}`);
    this.graph.node.hidden = name !== "graph";
    this.jsonHost.hidden = name !== "json";
    if (this.graph.layout) this.sizeStage();
    if (name !== "json") return;
    this.loading ??= import(host.dataset.jsonView);
    const { JsonView } = await this.loading;
    if (!this.json) this.json = new JsonView(this.jsonHost, { schema: this.schema, blocks: this.blocks, bundle: () => this.draft.bundle }, (text) => this.draft.type(text));
    this.json.fill(this.draft.json);
    await this.checker.run();
  }

  pressTab(event) {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    const next = this.view === "graph" ? "json" : "graph";
    this.open(next);
    document.getElementById(`tab-${next}`).focus();
  }

  // ---- the keyboard. It listens before the shortcuts of other pages (shortcuts.js).

  press(event) {
    const { key, target, ctrlKey, metaKey, altKey, shiftKey } = event, inJson = target.closest?.(".json-host"), isOpen = document.querySelector("dialog[open]");
    if (isOpen || inJson) return;
    if ((ctrlKey || metaKey) && !altKey && ["z", "y"].includes(key.toLowerCase())) {
      this.stop(event);
      return key.toLowerCase() === "y" || shiftKey ? this.draft.redo() : this.draft.undo();
    }
    if (ctrlKey || metaKey || altKey) return;
    if (key === "Escape" && this.form.node.contains(target)) return this.stop(event, () => this.graph.focus());
    if (target.closest?.(FIELDS)) return;
    const act = { a: () => this.search(), c: () => this.graph.startConnecting(), t: () => this.tryer.text.focus(), "?": () => this.help.showModal(), d: () => this.duplicate(), u: () => {}, e: () => this.form.focus(), j: () => {}, k: () => {} }[key];
    if (act) this.stop(event, act);
  }

  stop(event, act) {
    event.preventDefault();
    event.stopPropagation();
    act?.();
  }

  search() {
    this.drawer.open = true;
    this.palette.search.focus();
    this.palette.search.select();
  }

  duplicate() { [...this.form.node.querySelectorAll(".buttons button")].find((one) => one.textContent === "Duplicate")?.click(); }
}

start();
