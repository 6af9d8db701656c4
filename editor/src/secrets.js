// Stores a secret on the server, and puts its name into a field. A draft never has the value.

import { ask } from "./api.js";
import { button, h } from "./dom.js";

// `store` has uidOf() and form ("text", or "standard" for whsec_...). `use(reference)` gets the name.
export function makeSecretBox(store, wish, use) {
  const outcome = h("div", { role: "status" }), name = h("input", { type: "text", value: wish, maxlength: 64, autocomplete: "off" });
  const value = h("input", { type: "password", autocomplete: "new-password", placeholder: "empty: make a random one" }), replace = h("input", { type: "checkbox" });
  const save = async () => {
    const path = `/v1/pipelines/${encodeURIComponent(store.uidOf())}/secrets/${encodeURIComponent(name.value)}`;
    const answer = await ask("PUT", path, { json: { value: value.value, form: store.form, replace: replace.checked } });
    if (!answer.ok) return outcome.replaceChildren(h("p", { class: "bad" }, calls.describe(answer)));
    value.value = "";
    use(answer.body.reference);
    const made = answer.body.value;
    return outcome.replaceChildren(h("p", { class: "good" }, "Stored."), ...(made ? [h("p", {}, "Copy it to the other service now. It is not shown again."), h("pre", { class: "result", tabindex: "0" }, made)] : []));
  };
  return h("details", { class: "tester" }, h("summary", {}, "Store a secret"), h("label", {}, "Name of the secret", name), h("label", {}, "Value", value), h("label", { class: "check" }, replace, " replace an existing one"), button("Store", save, { class: "quiet" }), outcome);
}
