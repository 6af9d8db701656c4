// Fills a text field from a file (`data-fills`, its id), and with the bundle that was typed on the page Versions.
"use strict";

(() => {
  const fill = (id, text) => {
    const field = dom.byId(id);
    if (field) field.value = text;
  };
  document.addEventListener("change", async ({ target }) => {
    if (target.dataset.fills && target.files[0]) fill(target.dataset.fills, await target.files[0].text());
  });
  const kept = sessionStorage.getItem("candidate");
  sessionStorage.removeItem("candidate");
  if (kept) fill("candidate", kept);
})();
