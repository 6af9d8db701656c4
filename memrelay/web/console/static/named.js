// Tests or writes a text in a named memory, and shows what would happen or has happened to it.
"use strict";

(() => {
  const { make } = dom, VERBS = { created: "created", updated: "merged into", skipped: "skipped" };

  function show(form, entry, isTest) {
    const { action, score, why, id, memory_id: memory, content } = entry;
    const line = make("p", make("strong", `${isTest ? "would be " : ""}${VERBS[action] ?? action}`));
    if (action === "updated" && id) line.append(" ", link(form, memory, id));
    if (score !== undefined) line.append(`, ${score.toFixed(2)}, ${why}`);
    if (action !== "updated" && id) line.append(action === "skipped" ? ": " : " ", link(form, memory, id));
    form.querySelector(".outcome").replaceChildren(line, ...(action !== "created" && content ? [make("p", content, "text")] : []));
  }

  function link(form, memory, id) {
    const anchor = make("a", "this entry");
    anchor.href = `${form.dataset.entries}/${encodeURIComponent(memory)}?entry=${encodeURIComponent(id)}#entry`;
    return anchor;
  }

  for (const form of document.querySelectorAll("form.try")) {
    let isTest = false;
    form.addEventListener("submit", ({ submitter }) => {
      isTest = Boolean(submitter && "dry" in submitter.dataset);
      form.dataset.body = JSON.stringify({ ...JSON.parse(form.dataset.fixed ?? "{}"), dry_run: isTest });
      form.dataset.done = isTest ? "Tested. Nothing was written." : "Done.";
      form.querySelector(".outcome").replaceChildren();
    });
    form.addEventListener("acted", ({ detail }) => {
      show(form, detail, isTest);
      if (!isTest) form.elements.content.value = "";
    });
  }
})();
