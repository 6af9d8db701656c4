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
  // A form with `data-asks` sends its fields there, and shows the answer.
  document.addEventListener("submit", async (event) => {
    const form = event.target, box = dom.byId("outcome"), { asks } = form.dataset;
    if (!asks) return;
    event.preventDefault();
    box.textContent = "Asking…";
    try {
      const body = JSON.stringify(Object.fromEntries(new FormData(form)));
      const answer = await fetch(asks, { method: "POST", headers: { "Content-Type": "application/json" }, body }), text = await answer.text();
      if (answer.ok) box.innerHTML = text;
      else box.textContent = calls.describe({ status: answer.status, body: JSON.parse(text) });
    } catch {
      box.textContent = calls.describe({ status: 0 });
    }
  });
  const kept = sessionStorage.getItem("candidate");
  sessionStorage.removeItem("candidate");
  if (kept) fill("candidate", kept);
})();
