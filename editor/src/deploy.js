// Deploys the draft after showing what changes. A newer version on the server is never replaced without asking.

import { ask } from "./api.js";
import { slug } from "./bundle.js";
import { button, h, prose } from "./dom.js";
import { describeFault } from "./form.js";
import { compareAgents, compareLines } from "./diff.js";

const MAX_LINES = 400;
const WORDS = { added: "New", changed: "Changed", removed: "Removed" };

export class Deployer {
  // `context` has isNew, uidOf(), number (of the deployed version), checker.
  constructor(draft, context) {
    Object.assign(this, { draft, context });
    this.body = h("div", { class: "changes" });
    this.outcome = h("div", { role: "alert" });
    this.go = button("Deploy", () => this.deploy(this.draft.hash));
    this.node = h("dialog", { class: "deploy", "aria-labelledby": "deploy-title" }, h("h2", { id: "deploy-title" }, "Deploy"), this.body, this.outcome,
      h("p", { class: "buttons" }, this.go, " ", button("Cancel", () => this.node.close(), { class: "quiet" })));
  }

  async open() {
    await this.context.checker.run();
    const { draft, context } = this, isReady = context.checker.isReady;
    this.outcome.replaceChildren();
    this.go.disabled = !isReady || !(draft.isChanged || context.isNew);
    const text = !isReady ? "Fix the faults first; they are listed below the graph." : context.isNew ? `This makes the pipeline ${context.uidOf()}.` : draft.isChanged ? "These are the changes to the running pipeline." : "Nothing has changed.";
    this.body.replaceChildren(...[h("p", {}, text), isReady ? this.describeWarnings() : null, ...(isReady ? this.describeChanges() : [])].filter(Boolean));
    this.node.showModal();
    (this.go.disabled ? this.node.querySelector(".quiet") : this.go).focus();
  }

  describeWarnings() {
    const { faults } = this.context.checker;
    return faults.length ? h("ul", { class: "fault-list" }, faults.slice(0, 20).map((one) => h("li", { class: "warns" }, "Warning: ", prose(describeFault(one))))) : null;
  }

  describeChanges() {
    const { draft, context } = this, before = context.isNew ? { agents: [] } : draft.source, found = compareAgents(before, draft.bundle);
    const summary = h("ul", {}, Object.entries(WORDS).filter(([key]) => found[key].length).map(([key, word]) => h("li", {}, `${word}: ${found[key].slice(0, 30).join(", ")}`)), found.pipeline && !context.isNew ? h("li", {}, "Settings of the pipeline") : null);
    const lines = context.isNew ? [] : compareLines(JSON.stringify(before, null, 2), JSON.stringify(draft.bundle, null, 2));
    if (lines === null) return [summary, h("p", { class: "note" }, "The texts are too long to be compared by line.")];
    const shown = lines.slice(0, MAX_LINES).map(({ mark, line }) => h(mark === "+" ? "ins" : mark === "-" ? "del" : "span", {}, `${mark} ${line}\n`));
    return [summary, lines.length ? h("details", { open: lines.length < 60 ? true : null }, h("summary", {}, "Lines that differ"), h("pre", { class: "lines", tabindex: "0" }, shown)) : null];
  }

  async deploy(hash) {
    const { draft, context } = this, uid = context.uidOf();
    this.go.disabled = true;
    const path = `/v1/pipelines/${encodeURIComponent(uid)}`, headers = context.isNew ? { "If-None-Match": "*" } : { "If-Match": `"${hash}"` };
    const answer = await ask("PUT", path, { text: draft.json, headers });
    this.go.disabled = false;
    if (answer.ok) return this.finish(uid, answer.body.version);
    if (answer.status === 412 && context.isNew) return this.refuse(`A pipeline with the UID ${uid} exists already. Choose another UID.`);
    if (answer.status === 412) return this.showConflict(answer.body.active);
    if (answer.status === 422) await context.checker.run();
    return this.refuse(calls.describe(answer));
  }

  refuse(text) { this.outcome.replaceChildren(h("p", { class: "bad" }, text)); }

  finish(uid, version) {
    const { context } = this, path = `${calls.root}/v1/pipelines/${encodeURIComponent(uid)}`;
    this.draft.end();
    const undo = context.isNew ? undefined : { line: `POST ${path}/rollback`, body: { version: context.number } };
    sessionStorage.setItem("toast", JSON.stringify([`Deployed as version ${version}.`, undo]));
    location.assign(`${calls.root}/pipelines/${encodeURIComponent(uid)}/edit?deployed=${version}`);
  }

  showConflict(active) {
    const page = `${calls.root}/pipelines/${encodeURIComponent(this.context.uidOf())}/bundle?from=${this.context.number}#compare`;
    this.outcome.replaceChildren(h("p", { class: "bad" }, "A newer version was deployed since you opened this page."), h("p", { class: "buttons" },
      button("Deploy mine", () => this.deploy(active)), button("Keep theirs", () => { this.draft.end(); location.reload(); }, { class: "quiet" }), h("a", { href: page }, "Compare the versions")));
  }
}

export const uidFrom = (bundle) => bundle.pipeline_uid || slug(bundle.pipeline_name ?? "") || "draft";
