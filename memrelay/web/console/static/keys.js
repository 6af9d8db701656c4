// Shows a key once after its creation. Nothing replaces it, and no login follows, until the user has stored it.
"use strict";

(() => {
  const { byId } = dom, form = byId("create-key"), box = byId("created");
  const code = box.querySelector("code"), buttons = box.querySelector(".buttons");

  function close(target) {
    delete box.dataset.dirty;
    box.hidden = true;
    code.textContent = "";
    if (target) location.assign(target);
    else form.elements.name.focus();
  }

  form.addEventListener("acted", ({ detail: key }) => {
    box.dataset.dirty = "";   // see refresh.js
    box.hidden = false;
    byId("created-title").textContent = `New key: ${key.name}`;
    code.textContent = key.key;
    box.querySelector("ul").replaceChildren(...key.notes.map((note) => dom.make("li", `${note[0].toUpperCase()}${note.slice(1)}.`)));
    // Nothing else on the page works without the first key.
    if (key.is_first) document.querySelectorAll("main > section").forEach((one) => { one.hidden = one !== box; });
    buttons.replaceChildren(dom.makeButton(key.is_first ? "I have stored it. Log in" : "I have stored it",
      () => close(key.is_first ? `${calls.root}/login${key.scopes.includes("admin") ? "?next=/keys" : ""}` : "")));
    form.reset();
    box.scrollIntoView({ block: "nearest" });
    box.focus();
  });

  // A revocation removes the button that had the focus.
  document.addEventListener("acted", ({ target }) => { if (target.matches(".confirm")) byId("all").focus(); });

  // "All pipelines" makes the other boxes meaningless.
  const all = form.querySelector("input[value='*']"), some = [...form.querySelectorAll("[name=pipelines]")].filter((one) => one !== all);
  const update = () => some.forEach((one) => { one.disabled = all.checked; });
  form.addEventListener("change", update);
  form.addEventListener("reset", () => setTimeout(update));
  update();
})();
