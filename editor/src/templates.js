// The first step of a new pipeline: a template and a name.

import { ask } from "./api.js";
import { slug } from "./bundle.js";
import { h, icon } from "./dom.js";

const ICONS = { chat_memory: "chat", webhook_inbox: "webhook", github_to_slack: "send", daily_digest: "timer", agent_with_memory: "model", alert_dedupe: "swarm", shared_notes: "memory", empty: "empty" };

const MAX_TRIES = 20;

// Returns a uid that no pipeline has.
async function freeUid(wish) {
  let uid = wish;
  for (let number = 2; number < MAX_TRIES; number += 1) {
    const { status } = await ask("GET", `/v1/pipelines/${encodeURIComponent(uid)}`);
    if (status !== 200) break;
    uid = `${wish.slice(0, 60)}_${number}`;
  }
  return uid;
}

// `open(bundle)` is called with the bundle of the chosen template under its new name.
export function chooseTemplate(host, items, open) {
  const cards = items.map((item, at) => h("label", { class: "card" }, h("input", { type: "radio", name: "template", value: item.name, checked: at === 0, required: true }), icon(ICONS[item.name] ?? "empty"), h("span", {}, h("strong", {}, item.title), h("span", { class: "note" }, item.summary))));
  const fault = h("p", { class: "bad", role: "alert", hidden: true }), name = h("input", { type: "text", id: "name", required: true, maxlength: 200, autocomplete: "off", "aria-describedby": "name-help" });
  const form = h("form", { class: "new-pipeline", onsubmit: async (event) => {
    event.preventDefault();
    const uid = slug(name.value), chosen = items.find((one) => one.name === new FormData(form).get("template"));
    fault.hidden = Boolean(uid && uid !== "new");
    fault.textContent = "Choose a name with at least one letter or digit of a to z and 0 to 9, other than new.";
    if (!uid || uid === "new") return name.focus();
    const { pipeline_uid: _, ...rest } = chosen.bundle;
    return open({ ...rest, pipeline_name: name.value.trim(), pipeline_uid: await freeUid(uid) });
  } }, h("fieldset", {}, h("legend", {}, h("h2", {}, "Start from")), h("div", { class: "cards" }, cards)),
    h("div", { class: "field name-field" }, h("label", { for: "name" }, "Name"), name, fault, h("p", { class: "note", id: "name-help" }, "Such as “Issues of the shop”. You can change it later.")), h("p", { class: "buttons" }, h("button", {}, "Open the editor")));
  host.replaceChildren(form);
}
