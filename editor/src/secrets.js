// Stores a secret on the server, and puts its name into a field. A draft never has the value.

import { ask } from "./api.js";
import { button, h } from "./dom.js";

const NAMES = { github: "GitHub", gitlab: "GitLab", pagerduty: "PagerDuty", hubspot: "HubSpot", standard: "the sender", token: "the sender", "": "the sender" };
// Services that make their secret, which their page shows. Others take a secret that is made here.
const ISSUERS = new Set(["stripe", "slack", "shopify", "twilio", "discord", "meta", "trello", "dropbox", "zoom", "linear", "notion", "sentry", "pagerduty", "hubspot", "square", "mailgun", "teams"]);
const made = new Map();   // the values that the server made, by reference, until the page is left

const showSender = (sender) => NAMES[sender] ?? `${sender.charAt(0).toUpperCase()}${sender.slice(1)}`;

// A text with a button that copies it.
function makeCopy(label, text) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {   // no clipboard on plain HTTP, except on loopback
      getSelection().selectAllChildren(code);
      copy.textContent = "Press Ctrl+C";
    }
  }, { class: "quiet small", "aria-label": `Copy the ${label}` }), code = h("code", {}, text);
  return h("p", {}, `${label}: `, h("span", { class: "next-url" }, code, copy));
}

// `store` has uidOf(), form ("text", or "standard" for whsec_...), sender (its profile, "" for none), url (of the
// webhook, "" for other secrets), isHook and stored(), which is called after a change. `use(reference)` gets the name.
export function makeSecretBox(store, name, value, use) {
  const outcome = h("div", { role: "status" }), isIssued = ISSUERS.has(store.sender), sender = showSender(store.sender);
  const given = h("input", { type: "password", autocomplete: "new-password" });
  const show = (reference) => {
    const text = made.get(reference);
    if (!text) return outcome.replaceChildren(h("p", { class: "good" }, `Stored as ${reference}.`));
    return outcome.replaceChildren(h("p", { class: "good" }, store.isHook ? `Stored. Paste it at ${sender} as the secret. It is shown only now.` : "Stored. Copy it now: it is not shown again."),
      makeCopy("Secret", text), store.url ? makeCopy("URL", store.url) : "");
  };
  const save = async (text, replace = false) => {
    if (text === "") return given.focus();
    const path = `/v1/pipelines/${encodeURIComponent(store.uidOf())}/secrets/${encodeURIComponent(name)}`, reference = `file:${store.uidOf()}/${name}`;
    const answer = await ask("PUT", path, { json: { ...(text === null ? {} : { value: text }), form: store.form, replace } });
    if (answer.status === 409) {
      return outcome.replaceChildren(h("p", {}, `The secret ${name} exists already. Replace it?`), h("p", { class: "buttons" },
        button("Replace it", () => save(text, true), { class: "quiet small" }), button("Use the existing one", () => take(reference), { class: "quiet small" })));
    }
    if (!answer.ok) return outcome.replaceChildren(h("p", { class: "bad" }, calls.describe(answer)));
    given.value = "";
    made.delete(answer.body.reference);
    if (answer.body.value) made.set(answer.body.reference, answer.body.value);
    return take(answer.body.reference);
  };
  const take = (reference) => {
    use(reference);
    show(reference);
    store.stored();
  };
  if (made.has(value)) show(value);
  const enter = [h("label", {}, isIssued ? `Enter the secret that ${sender} shows you` : "Secret", given), button("Store", () => save(given.value), { class: "quiet small" })];
  const generate = button("Generate a secret", () => save(null), { class: "quiet small" });
  return h("div", { class: "secret-box" }, isIssued ? enter : [h("p", { class: "buttons" }, generate), h("details", {}, h("summary", {}, "Enter one that you have"), enter)], outcome);
}
