// The form of the selected agent, or of the pipeline if none is selected.

import { AI, agentsOf, argsOf, blockOf, CHAT, callsBlock, describeSenders, disconnect, duplicateAgent, labelOf, listensOn, listStores, listSwarms, nameOf, publishersOn, publishesTo, renameAgent,
  senderMode, sendersOf, setAgent, setSenderMode, setSenders, slug, VIEWER, withArg, withKey } from "./bundle.js";
import { button, h, icon, prose } from "./dom.js";
import { makeField, resolve, setFault } from "./fields.js";

const SECTIONS = [
  ["Webhook", ["wf_webhook_sender", "wf_webhook_secret", "wf_webhook_token", "wf_webhook_text", "wf_webhook_each", "wf_webhook_verify", "wf_webhook_networks", "wf_webhook_answer", "wf_webhook_bytes"]],
  ["Timer", ["wf_cron", "wf_timezone", "wf_catch_up", "wf_interval_secs"]],
  ["Flow and checks", ["wf_flow", "schema", "on_mismatch", "receipts", "wf_username", "wf_call_webhook"]],
];
const LABELS = {
  wf_webhook_sender: "Service that sends", wf_webhook_secret: "Secret that signs", wf_webhook_token: "Bearer token", wf_webhook_text: "Text of the message", wf_webhook_each: "List of events", wf_webhook_verify: "Verify token",
  wf_webhook_networks: "Allowed networks", wf_webhook_answer: "Answer", wf_webhook_bytes: "Largest body", wf_cron: "Schedule", wf_timezone: "Time zone", wf_catch_up: "Run a missed slot later", wf_interval_secs: "Interval in seconds",
  wf_flow: "Flow control", schema: "JSON Schema of its texts", on_mismatch: "Swarm of texts that break the schema", receipts: "Keep receipts", wf_username: "User name of its messages", wf_call_webhook: "Call the block",
  inputs_days: "Days to keep inputs", receipts_days: "Days to keep receipts", receipts_question: "Question in receipts", review_days: "Days for reviews", golden_questions: "File of golden questions", display_order: "Order in clients",
};
const FORMATS = { wf_webhook_secret: "secret", wf_webhook_token: "secret", wf_webhook_verify: "secret", wf_webhook_text: "jmespath", wf_webhook_each: "jmespath" };
const HIDDEN = ["agents", "pipeline_name", "pipeline_desc", "pipeline_uid", "pipeline_id"];
const MODES = { everyone: "Everyone", commands: "Everyone but commands", others: "Everyone but…", chosen: "Chosen agents" };

export class Form {
  // `context` has blocks (by name), schema (of bundles), isNew, and the functions uidOf, focusGraph, connect.
  constructor(draft, context) {
    Object.assign(this, { draft, context, faults: [] });
    this.node = h("section", { class: "panel", "aria-label": "Settings" });
    draft.addEventListener("change", ({ detail }) => { if (detail.by !== "form") this.draw(); });
    draft.addEventListener("select", () => this.draw());
  }

  get at() { return this.draft.selected; }
  get agent() { return agentsOf(this.draft.bundle)[this.at]; }

  draw() {
    const active = this.node.contains(document.activeElement) ? document.activeElement : null, { scrollTop } = this.node;
    const opened = [...this.node.querySelectorAll("details[open][data-section]")].map((one) => one.dataset.section);
    const key = active?.dataset.key, isSame = this.drawn === this.at;
    this.drawn = this.at;
    this.node.replaceChildren(...(this.agent ? this.drawAgent() : this.drawPipeline()).filter(Boolean), this.makeLists());
    if (isSame) for (const name of opened) this.node.querySelector(`details[data-section="${CSS.escape(name)}"]`)?.setAttribute("open", "");
    this.showFaults(this.faults);
    this.node.scrollTop = isSame ? scrollTop : 0;
    if (key && isSame) this.node.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus();
  }

  // Focuses a field, or the first one.
  focus(key) {
    const field = key ? this.node.querySelector(`[data-key="${CSS.escape(key)}"]`) : this.node.querySelector("input, textarea, select");
    field?.closest("details")?.setAttribute("open", "");
    (field ?? this.node.querySelector("input, textarea, select"))?.focus();
  }

  change(make, key) { this.draft.change(make, { merge: `${this.at}/${key}`, by: "form" }); }
  changeAgent(change, key) { this.change((bundle) => setAgent(bundle, this.at, change), key); }

  // Changes the agent and draws the form again, for fields on which others depend.
  reshape(change, key) {
    this.changeAgent(change, key);
    this.draw();
  }

  makeLists() {
    const { bundle } = this.draft, list = (id, names) => h("datalist", { id }, names.map((value) => h("option", { value })));
    const secrets = JSON.stringify(bundle).match(/"(env|file):[^"]{1,100}"/g) ?? [];
    return h("div", {}, list("swarms", listSwarms(bundle)), list("stores", listStores(bundle)), list("secrets", [...new Set(secrets.map((one) => JSON.parse(one)))].slice(0, 20)));
  }

  field(key, schema, value, change, isRequired = false) {
    const { agent, context } = this, sender = typeof agent?.wf_webhook_sender === "string" ? agent.wf_webhook_sender : "", isHook = key.startsWith("wf_webhook_");
    const isStandard = key === "secret" || (key === "wf_webhook_secret" && ["", "standard"].includes(sender));
    const store = context.mayStore ? { uidOf: context.uidOf, form: isStandard ? "standard" : "text", prefix: agent ? `${slug(agent.agent_alias ?? "")}-` : "", sender: isHook ? sender : "", isHook,
      url: isHook ? `${context.publicUrl}/webhooks/${context.uidOf()}/${agent.agent_alias}` : "", stored: () => context.check() } : null;
    const group = () => String(argsOf(this.agent ?? {}).group ?? "");
    return makeField({ store, key, schema, value, change, isRequired, lists: { store: "stores", secret: "secrets", swarm: "swarms" }, flags: () => (this.agent ? argsOf(this.agent).flags ?? "" : ""), group: this.agent && blockOf(this.agent) === "regex_match" ? group : null });
  }

  details(title, fields, isOpen) {
    return fields.length ? h("details", { class: "more", "data-section": title, ...(isOpen ? { open: true } : {}) }, h("summary", {}, title), fields) : null;
  }

  // ---- an agent

  drawAgent() {
    const { agent, at } = this, name = blockOf(agent), block = this.context.blocks.get(name), act = (change, select) => () => this.draft.change(change, { select });
    const buttons = h("div", { class: "buttons" }, button("Connect", () => this.context.connect(at), { class: "quiet" }),
      button("Duplicate", act((bundle) => duplicateAgent(bundle, at), at + 1), { class: "quiet" }), button("Delete", () => this.context.remove(), { class: "quiet removes" }));
    const group = agent.agent_class === CHAT ? "chat" : agent.agent_class === VIEWER ? "view" : block?.group ?? "own";
    return [
      h("p", { class: "crumb" }, button("Pipeline", () => { this.draft.select(-1); this.focus(); }, { class: "link" }), ` › ${labelOf(agent)}`),
      h("h2", {}, icon(group), " ", labelOf(agent)),
      h("p", { class: "note" }, h("code", {}, name || "no block"), " ", block ? prose(block.summary) : (agent.agent_class === CHAT ? "A person writes and reads here." : "")),
      buttons, this.drawIdentity(), ...this.drawArguments(block), this.drawWiring(), ...this.drawSections(),
    ];
  }

  drawIdentity() {
    const { agent } = this, keyOf = (key) => (value) => this.changeAgent((one) => withKey(one, key, value ?? ""), key);
    return h("div", { class: "fields" },
      this.field("name", { label: "Name", type: "string", description: "The sender of its messages." }, nameOf(agent), (value) => this.change((bundle) => renameAgent(bundle, this.at, value ?? ""), "name"), true),
      this.field("agent_alias", { label: "Alias", type: "string", description: "Its address, unique in the pipeline: /webhooks/UID/ALIAS." }, agent.agent_alias, keyOf("agent_alias"), true),
      this.field("agent_desc", { label: "Description", type: "string" }, agent.agent_desc, (value) => this.changeAgent((one) => withKey(one, "agent_desc", value), "agent_desc")));
  }

  drawArguments(block) {
    const { agent } = this;
    if (!callsBlock(agent) && !block?.args_schema?.properties) return [];
    const options = [...this.context.blocks.keys()].filter((one) => ![CHAT, VIEWER].includes(one));
    const chooser = agent.agent_class === "wf_agent" || !agent.agent_class
      ? this.field("wf_diagram_webhook", { label: "Block", enum: options.includes(blockOf(agent)) || !blockOf(agent) ? options : [blockOf(agent), ...options] }, blockOf(agent) || undefined, (value) => this.reshape((one) => withKey(one, "wf_diagram_webhook", value), "block"), true) : null;
    const schema = block?.args_schema ?? {}, defs = schema.$defs, required = schema.required ?? [], args = argsOf(agent);
    const isNeeded = (key) => required.includes(key) || (key === "memory_id" && /^Required/.test(schema.properties[key].description ?? ""));
    const keys = Object.keys(schema.properties ?? {}), first = keys.filter((key) => isNeeded(key)), set = keys.filter((key) => !isNeeded(key) && args[key] !== undefined);
    const rest = keys.filter((key) => !first.includes(key) && !set.includes(key)), unknown = Object.keys(args).filter((key) => !keys.includes(key));
    const make = (key) => this.field(key, resolve(schema.properties[key] ?? {}, defs), args[key], (value) => this.changeAgent((one) => withArg(one, key, value), `arg-${key}`), isNeeded(key));
    const isShort = rest.length <= 3 && first.length + set.length <= 2;
    return [h("div", { class: "fields" }, chooser, [...first, ...set, ...unknown, ...(isShort ? rest : [])].map(make)), isShort ? null : this.details(`More settings (${rest.length})`, rest.map(make))];
  }

  drawWiring() {
    const { agent } = this, swarm = (key, label, description) => this.field(key, { label, description, type: "string", list: "swarm" }, agent[key], (value) => this.wire(key, value ?? ""));
    const isPerson = agent.agent_class === CHAT, isViewer = agent.agent_class === VIEWER;
    const publish = isPerson || isViewer ? null : this.field("wf_publish_results", { label: "Publish its result", type: "boolean", default: false }, agent.wf_publish_results, (value) => this.changeAgent((one) => withKey(one, "wf_publish_results", value), "publish"));
    return h("fieldset", { class: "fields wiring" }, h("legend", {}, "Connections"),
      swarm("agent_rec_swarm", "Listens on", "The swarm whose messages it gets. Empty for webhooks and timers."), listensOn(agent) ? this.drawSenders() : null,
      isViewer ? null : swarm("agent_send_swarm", "Publishes to", "The swarm that gets its results."), publish, this.drawListeners());
  }

  wire(key, value) {
    const isFirst = key === "agent_send_swarm" && value && this.agent.wf_publish_results === undefined && callsBlock(this.agent);
    this.changeAgent((one) => ({ ...withKey(one, key, value), ...(isFirst ? { wf_publish_results: true } : {}) }), key);
    clearTimeout(this.redraw);
    this.redraw = setTimeout(() => this.draw(), 700);   // the senders depend on the swarm
  }

  drawSenders() {
    const { agent } = this, { bundle } = this.draft, mode = this.mode ?? senderMode(bundle, agent), names = sendersOf(agent);
    const isChosen = this.mode;
    this.mode = null;
    const select = h("select", { "data-key": "agent_from", name: "agent_from", onchange: ({ target }) => {
      this.mode = target.value;
      this.reshape((one) => setSenderMode(bundle, one, target.value), "mode");
    } }, Object.entries(MODES).map(([value, text]) => h("option", { value, selected: value === mode }, text)));
    const isExcluding = mode === "others", mark = isExcluding ? "!" : "";
    const known = [...new Set([...publishersOn(bundle, listensOn(agent)), ...names.map((one) => one.replace(/^!/, ""))])];
    const choices = ["others", "chosen"].includes(mode) ? h("div", { class: "choices-of", role: "group", "aria-label": isExcluding ? "Excluded senders" : "Accepted senders" }, known.map((name) => h("label", { class: "check" },
      h("input", { type: "checkbox", "data-key": `from-${name}`, checked: names.includes(mark + name), onchange: ({ target }) => {
        this.mode = mode;
        const kept = sendersOf(this.agent).filter((one) => one.startsWith("!") === isExcluding && one !== mark + name);
        this.reshape((one) => setSenders(one, target.checked ? [...kept, mark + name] : kept), "senders");
      } }), " ", name))) : null;
    const isLong = isExcluding && names.length > 2;
    const boxes = choices && isLong ? h("details", { "data-section": "excluded", ...(isChosen ? { open: true } : {}) }, h("summary", {}, `${names.length} excluded agents`), choices) : choices;
    return h("div", { class: "field", "data-field": "agent_from" }, h("label", {}, "Accepts from", select), h("p", { class: "bad fault", hidden: true }), boxes, mode === "commands" ? h("p", { class: "note help" }, `All senders except the ${names.length} agents of this swarm that call a block.`) : null);
  }

  // The agents that get its messages, each with a button that disconnects it.
  drawListeners() {
    const { agent, at } = this, { bundle } = this.draft, swarm = publishesTo(agent), name = nameOf(agent);
    const heard = agentsOf(bundle).map((one, index) => [one, index]).filter(([one, index]) => index !== at && swarm && listensOn(one) === swarm && (!sendersOf(one).length || sendersOf(one).includes(name)));
    if (!heard.length) return null;
    return h("div", { class: "field" }, h("p", { class: "label" }, "Goes to"), h("ul", { class: "rows-list" }, heard.slice(0, 20).map(([one, index]) => h("li", {}, button(labelOf(one), () => { this.draft.select(index); this.context.focusGraph(); }, { class: "link" }), " ",
      button("Disconnect", () => this.draft.change((now) => disconnect(now, at, index)), { class: "quiet small", "aria-label": `Disconnect ${labelOf(one)}` })))));
  }

  drawSections() {
    const { agent } = this, { $defs } = this.context.schema, { properties = {} } = $defs?.AgentSpec ?? {};
    if (agent.agent_class === VIEWER) return [];
    const usable = agent.agent_class === CHAT ? SECTIONS.slice(0, 1) : SECTIONS;
    return usable.map(([title, keys]) => this.details(title, keys.filter((key) => properties[key]).map((key) => this.field(key, { ...resolve(properties[key], $defs), label: LABELS[key], ...(FORMATS[key] ? { format: FORMATS[key] } : {}) }, agent[key] ?? undefined,
      (value) => (key === "wf_webhook_sender" ? this.reshape : this.changeAgent).call(this, (one) => withKey(one, key, value), key))), keys.some((key) => agent[key] !== undefined) && title === "Webhook"));
  }

  // ---- the pipeline

  drawPipeline() {
    const { bundle } = this.draft, { schema, isNew } = this.context, properties = schema.$defs?.Bundle?.properties ?? {};
    const make = (key, spec, isRequired) => this.field(key, { ...spec, label: LABELS[key] ?? spec.label }, bundle[key] ?? undefined, (value) => this.change((one) => withKey(one, key, value), key), isRequired);
    const rest = Object.keys(properties).filter((key) => !HIDDEN.includes(key));
    const isUsed = JSON.stringify(bundle).includes(`"file:${this.context.uidOf()}/`);   // a stored secret has it in its name
    const uid = isNew && !isUsed ? this.field("pipeline_uid", { label: "UID", type: "string", description: "Its address, such as /pipelines/UID. It cannot be changed later." }, bundle.pipeline_uid ?? "", (value) => this.change((one) => withKey(one, "pipeline_uid", value), "uid"), true)
      : h("p", { class: "field" }, h("span", { class: "label" }, "UID "), h("code", {}, this.context.uidOf()));
    const agents = agentsOf(bundle);
    return [
      h("h2", {}, "Pipeline"), h("p", { class: "note" }, "Select a block in the graph to see its settings."),
      h("div", { class: "fields" }, make("pipeline_name", { label: "Name", type: "string" }, true), uid, make("pipeline_desc", { label: "Description", type: "string" })),
      h("details", { class: "more", "data-section": "Blocks" }, h("summary", {}, `Blocks (${agents.length})`), h("ul", { class: "rows-list" }, agents.map((agent, at) => h("li", {}, button(labelOf(agent), () => { this.draft.select(at); this.focus(); }, { class: "link" }), h("span", { class: "note" }, ` ${blockOf(agent)}${listensOn(agent) ? `, from ${describeSenders(bundle, agent)}` : ""}`))))),
      this.details("More settings", rest.map((key) => make(key, resolve(properties[key], schema.$defs)))),
    ];
  }

  // Shows the faults at the fields of the selected agent, or of the pipeline.
  showFaults(faults) {
    this.faults = faults;
    const prefix = this.agent ? `/agents/${this.at}/` : "/", boxes = [...this.node.querySelectorAll("[data-field]")];
    for (const box of boxes) {
      const key = box.dataset.field, control = box.querySelector(`[data-key="${CSS.escape(key)}"]`), place = box.querySelector(".fault");
      const found = faults.filter((one) => keyOf(one, prefix, this.agent) === key);
      if (control && place && !(place.textContent.startsWith("Not valid JSON") && !found.length)) setFault(control, place, found.map(describeFault).join(" "));
    }
  }
}

export const describeFault = ({ rule, suggestion }) => `${rule.charAt(0).toUpperCase()}${rule.slice(1)}${suggestion ? `; ${suggestion}` : ""}.`;

// The key of the field to which a fault belongs, "" for none.
export function keyOf({ pointer }, prefix, agent) {
  if (!pointer.startsWith(prefix)) return "";
  const [key, inner] = pointer.slice(prefix.length).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  if (!agent) return key === "agents" ? "" : key;
  if (key === "wf_webhook_args") return inner ?? "wf_diagram_webhook";
  if (["wf_agent_name", "agent_name"].includes(key)) return "name";
  return agent.agent_class === AI && key.startsWith("ai_") ? key.slice(3) : key;
}
