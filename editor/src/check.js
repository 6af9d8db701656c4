// Checks the draft on the server while it changes, and lists the faults.

import { agentsOf, labelOf } from "./bundle.js";
import { ask } from "./api.js";
import { button, h, prose } from "./dom.js";
import { describeFault, keyOf } from "./form.js";

const PAUSE_MS = 350;
const SECRETS = ["wf_webhook_secret", "wf_webhook_token", "wf_webhook_verify"];

export class Checker {
  // `show(faults)` gets the faults and warnings; `open(at, key, fault)` goes to the place of one.
  constructor(draft, uidOf, { show, open, isNew }) {
    Object.assign(this, { draft, uidOf, show, open, isNew, number: 0, isReady: false, faults: [] });
    this.state = h("p", { class: "state", role: "status" }, "Checking…");
    this.list = h("ul", { class: "fault-list" });
    this.node = h("div", { class: "checks" }, this.list);
    draft.addEventListener("change", () => this.later());
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), PAUSE_MS);
  }

  async run() {
    clearTimeout(this.timer);
    const number = (this.number += 1), answer = await ask("POST", `/v1/pipelines/${encodeURIComponent(this.uidOf())}/check`, { text: this.draft.json });
    if (number !== this.number) return;   // a newer check is on its way
    if (!answer.ok) return this.fail(calls.describe(answer));
    this.faults = answer.body.faults;
    this.isReady = answer.body.valid;
    this.draw();
    this.show(this.faults);
  }

  fail(text) {
    this.isReady = false;
    this.state.className = "state bad";
    this.state.textContent = text;
    this.list.replaceChildren();
  }

  draw() {
    const errors = this.faults.filter((one) => one.severity !== "warning").length, warnings = this.faults.length - errors;
    const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;
    const hints = warnings ? `, ${count(warnings, "warning")}` : "";
    this.state.className = `state ${this.isReady ? "good" : "bad"}`;
    this.state.textContent = this.isReady ? `${this.isNew || this.draft.isChanged ? "Ready to deploy" : "No changes"}${hints}` : `${count(errors, "fault")} to fix${hints}`;
    this.list.replaceChildren(...this.faults.slice(0, 50).map((one) => this.makeRow(one)));
  }

  makeRow(fault) {
    const agents = agentsOf(this.draft.bundle), at = Number(fault.pointer.match(/^\/agents\/(\d+)/)?.[1] ?? -1), agent = agents[at];
    const key = agent ? keyOf(fault, `/agents/${at}/`, agent) : keyOf(fault, "/", null);
    const place = agent ? `${labelOf(agent)}${key ? ` · ${key}` : ""}` : key || `line ${fault.line}`;
    return h("li", { class: fault.severity === "warning" ? "warns" : "fails" }, button(place, () => this.open(agent ? at : -1, key, fault), { class: "link" }), ` ${fault.severity === "warning" ? "Warning: " : ""}`, prose(describeFault(fault)), SECRETS.includes(key) ? [" ", button("Set the secret", () => this.open(at, key, fault), { class: "link" })] : null);
  }
}
