// Shows a key once after its creation. No login follows until the user has stored it.
"use strict";

(() => {
  const { byId } = dom, form = byId("create-key"), box = byId("created");

  form.addEventListener("acted", ({ detail: key }) => {
    const target = key.is_first ? `${calls.root}/login${key.scopes.includes("admin") ? "?next=/keys" : ""}` : "";
    const notes = key.notes.map((note) => `${note[0].toUpperCase()}${note.slice(1)}.`);
    showSecret(`New key: ${key.name}`, key.key, notes, key.is_first ? "I have stored it. Log in" : "I have stored it",
      () => (target ? location.assign(target) : form.elements.name.focus()));
    // Nothing else on the page works without the first key.
    if (key.is_first) document.querySelectorAll("main > section").forEach((one) => { one.hidden = one !== box; });
    form.reset();
  });

  // A revocation removes the button that had the focus.
  document.addEventListener("acted", ({ target }) => { if (target.matches(".confirm")) byId("all").focus(); });

  // "All pipelines" makes the other boxes meaningless.
  const all = form.querySelector("input[value='*']"), some = [...form.querySelectorAll("[name=pipelines]")].filter((one) => one !== all);
  const update = () => some.forEach((one) => { one.disabled = all.checked; });
  form.addEventListener("change", update);
  // Sets what an administrator of this console needs, and nothing else.
  byId("console-key").addEventListener("click", () => {
    const { name } = form.elements, chosen = ["read", "admin", "*"];
    name.value ||= "console";
    form.querySelectorAll("[type=checkbox]").forEach((one) => { one.checked = chosen.includes(one.value); });
    update();
  });
  form.addEventListener("reset", () => setTimeout(update));
  update();
})();
