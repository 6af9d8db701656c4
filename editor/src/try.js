// Sends a test message through the draft, without storing or sending anything, and shows each step.

import { accepts, agentsOf, argsOf, callsBlock, CHAT, hasWebhook, isTimed, labelOf, listensOn, listSwarms, nameOf } from "./bundle.js";
import { ask } from "./api.js";
import { button, clip, h, prose } from "./dom.js";

const PAUSE_MS = 280, MAX_TEXT = 2000;
const ENDS = { done: "The test message ran to its end.", failed: "The test message failed.", stopped: "The test was stopped." };
const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// The places where a message can come in: chats and webhooks in the order of the bundle, then swarms.
function listEntrances(bundle) {
  const agents = agentsOf(bundle), isChat = (one) => one.agent_class === CHAT && one.agent_send_swarm;
  const isHook = (one) => hasWebhook(one) && one.agent_alias && !isTimed(one);
  const used = new Set(agents.filter(isChat).map((one) => one.agent_send_swarm));
  return [
    ...agents.filter((one) => isChat(one) || isHook(one)).map((one) => isChat(one)
      ? { label: `Chat on ${one.agent_send_swarm} as ${labelOf(one)}`, swarm: one.agent_send_swarm, user: nameOf(one) || "User" }
      : { label: `Webhook to ${one.agent_alias}`, agent: one.agent_alias, sender: typeof one.wf_webhook_sender === "string" ? one.wf_webhook_sender || "standard" : "standard" }),
    ...listSwarms(bundle).filter((one) => !used.has(one) && agents.some((agent) => listensOn(agent) === one)).map((one) => ({ label: `Swarm ${one}`, swarm: one, user: "User" })),
  ];
}

export class Tryer {
  // `context` has isNew, mayRead, samples (bodies of webhooks by sender), uidOf(), graph, tell(text).
  constructor(draft, context) {
    Object.assign(this, { draft, context });
    this.place = h("select", { id: "try-place", onchange: () => this.suggest() });
    this.text = h("textarea", { id: "try-text", rows: 3, spellcheck: "false", oninput: () => { this.isTyped = true; } });
    this.copy = h("input", { type: "checkbox", id: "try-copy" });
    this.send = button("Send test message", () => this.run());
    this.outcome = h("div", { class: "try-outcome", role: "status" });
    this.steps = h("ol", { class: "try-steps" });
    this.node = h("section", { class: "try-pane", "aria-labelledby": "try-title" }, h("h2", { id: "try-title" }, "Test a message"),
      h("p", { class: "note" }, "It runs through this draft. Nothing is stored or sent."),
      h("div", { class: "field" }, h("label", { for: "try-place" }, "Comes in at"), this.place), h("div", { class: "field" }, h("label", { for: "try-text" }, "Message"), this.text),
      context.isNew || !context.mayRead ? null : h("label", { class: "check", for: "try-copy" }, this.copy, " with a copy of the memory"), h("p", { class: "buttons" }, this.send), this.outcome, this.steps);
    draft.addEventListener("change", () => this.refresh());
    this.refresh();
  }

  get entrance() { return listEntrances(this.draft.bundle)[this.place.selectedIndex] ?? null; }

  refresh() {
    const found = listEntrances(this.draft.bundle), labels = found.map((one) => one.label).join("\n");
    if (labels === this.labels) return;
    const kept = this.place.value;
    this.labels = labels;
    this.place.replaceChildren(...found.map((one) => h("option", { value: one.label, selected: one.label === kept }, one.label)));
    this.send.disabled = !found.length;
    this.suggest();
  }

  // Fills in an example, unless a text was typed.
  suggest() {
    const { entrance } = this;
    if (!entrance || (this.isTyped && this.text.value)) return;
    const { body } = this.context.samples[entrance.sender] ?? {};
    this.text.value = entrance.agent ? JSON.stringify(body ?? {}, null, 2) : this.findExample();
    this.text.rows = Math.min(10, this.text.value.split("\n").length + 1);
  }

  // A message that the first command of the pipeline accepts: the literal begin of its pattern.
  findExample() {
    for (const agent of agentsOf(this.draft.bundle)) {
      const command = String(agent.wf_webhook_args?.pattern ?? "").match(/^\^(\/\w+)/)?.[1];
      if (command) return `${command} The kettle leaks`;
    }
    return "The kettle leaks";
  }

  async run() {
    const { entrance, draft, context } = this;
    if (!entrance) return;
    if (draft.isBroken) return this.outcome.replaceChildren(h("p", { class: "bad" }, "The JSON is broken: correct it first. Nothing was tested."));
    const { swarm, user, agent, sender } = entrance, sample = context.samples[sender] ?? {};
    const data = sample.headers ?? {};
    const body = { bundle: draft.bundle, text: this.text.value, stores: this.copy.checked ? "copy" : "empty", ...(agent ? { agent, data } : { swarm, user }) };
    this.send.disabled = true;
    this.outcome.textContent = "Running…";
    this.steps.replaceChildren();
    const answer = await ask("POST", `/v1/pipelines/${encodeURIComponent(context.uidOf())}/try`, { json: body });
    this.send.disabled = false;
    if (!answer.ok) return this.outcome.replaceChildren(h("p", { class: "bad" }, calls.describe(answer)));
    return this.show(answer.body);
  }

  show({ status, reason, took_ms, steps, dead_letters = [], notes = [] }) {
    const agents = agentsOf(this.draft.bundle), find = (alias) => agents.findIndex((one) => one.agent_alias === alias), byId = new Map(steps.map((one) => [one.id, find(one.agent)]));
    const isBad = status !== "done" || dead_letters.length > 0, end = steps.length ? ENDS[status] ?? status : "No block accepted the message.";
    this.outcome.replaceChildren(h("p", { class: isBad || !steps.length ? "bad" : "good" }, `${end}${reason ? ` ${reason}` : ""} (${steps.length} steps, ${Math.round(took_ms)} ms)`), ...(steps.length ? [] : this.explain()), ...notes.filter((one) => steps.length || !one.startsWith("no block took")).map((one) => h("p", { class: "note" }, prose(one))));
    this.shown = new Set();
    this.steps.replaceChildren(...steps.map((one) => this.makeStep(one, find(one.agent))), ...dead_letters.filter((one) => !steps.some((step) => step.fault && step.agent === one.agent)).map((one) => h("li", { class: "broken" }, h("strong", {}, one.agent), ` Dead letter: ${one.reason}`)));
    const path = steps.map((one) => ({ at: find(one.agent), from: byId.get(one.parent) ?? agents.findIndex((other) => other.agent_class === CHAT && nameOf(other) === one.from), isBad: Boolean(one.fault) })).filter((one) => one.at >= 0);
    const chat = path[0]?.from >= 0 ? [{ at: path[0].from, from: -1 }] : [];
    this.context.graph.light([...chat, ...path], still() ? 0 : PAUSE_MS);
  }

  // Which blocks heard the message, and why they did nothing.
  explain() {
    const { swarm, user } = this.entrance ?? {}, agents = agentsOf(this.draft.bundle).filter((one) => swarm && listensOn(one) === swarm && callsBlock(one));
    const heard = agents.filter((one) => accepts(one, user)), others = agents.length - heard.length;
    const why = (agent) => [h("strong", {}, labelOf(agent)), argsOf(agent).pattern ? [": its pattern ", h("code", {}, argsOf(agent).pattern), " does not match"] : ": its block did nothing"].flat();
    const rest = others ? `${others} ${others === 1 ? "block" : "blocks"} of the swarm ${others === 1 ? "does" : "do"} not accept messages of ${user}.` : "";
    return swarm ? [heard.length ? h("p", {}, `Heard by ${heard.length}:`) : h("p", {}, "No block heard it."), h("ul", {}, heard.slice(0, 20).map((one) => h("li", {}, why(one)))), rest && h("p", { class: "note" }, rest)].filter(Boolean) : [];
  }

  // A text that an earlier step has shown is shortened.
  makeText(text) {
    if (this.shown.has(text)) return h("pre", {}, clip(text.replace(/\s+/g, " "), 60));
    if (text.length > 60) this.shown.add(text);
    return h("pre", text.split("\n").length > 5 || text.length > 400 ? { tabindex: "0" } : {}, clip(text, MAX_TEXT));
  }

  makeStep(step, at) {
    const line = (label, text, name = "") => (text === "" || text === undefined || text === null ? null : h("div", { class: name }, h("dt", {}, label), h("dd", {}, this.makeText(typeof text === "string" ? text : JSON.stringify(text, null, 1)))));
    const shortStore = (name) => name.split("/").at(-1);
    return h("li", { class: step.fault ? "broken" : "" }, h("p", {}, button(step.agent, () => { this.draft.select(at); this.context.graph.reveal(at); }, { class: "link" }), h("span", { class: "note" }, ` ${step.block}`)), h("dl", {},
      line("Received", step.input), (step.found ?? []).length ? line("Found", step.found.map((one) => one.content).join("\n")) : null,
      (step.stored ?? []).map((one) => line(`Would be ${one.action} in ${shortStore(one.store)}`, one.content)), (step.output ?? []).map((one) => line(`Published on ${one.swarm}`, one.text)),
      (step.sends ?? []).map((one) => line(`Would send (${one.what}) to ${one.target}`, one.body ?? "no body")), line("Not run", step.not_run), line("Dead letter", step.fault, "bad")));
  }
}
