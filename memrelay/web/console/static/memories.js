// The pages below /memories: the selection of rows, deletions, and restored states.
"use strict";

(() => {
  const { byId } = dom, fault = byId("fault"), list = byId("memories"), dialog = byId("confirm");

  // Sends a change and reloads the page, or shows why it failed. An ended session leads to the login page.
  async function send(button, path, body) {
    fault.hidden = button.disabled = true;
    const answer = await calls.call(`POST ${path}`, body);
    if (answer.ok || answer.status === 401) return location.reload();
    fault.textContent = calls.describe(answer);
    fault.hidden = button.disabled = false;
    return fault;
  }

  // Shows the dialog, which sends a change after a click on the button with this label.
  function confirmChange(title, text, label, path, body) {
    const yes = byId("confirm-yes");
    byId("confirm-title").textContent = title;
    byId("confirm-text").textContent = text;
    yes.textContent = label;
    yes.onclick = () => send(yes, path, body);
    fault.hidden = true;
    dialog.showModal();
  }

  byId("confirm-no")?.addEventListener("click", () => dialog.close());
  document.addEventListener("click", ({ target }) => {
    const { user, url } = target.closest(".forget")?.dataset ?? {}, restore = target.closest(".restore");
    const text = "This erases the user with all facts, episodes and conversations, and cannot be undone.";
    if (url) confirmChange(`Forget ${user}`, text, "Forget", url, {});
    if (restore) send(restore, restore.closest("[data-restore]").dataset.restore, { number: Number(restore.dataset.number) });
  });

  const button = byId("delete-selected"), all = byId("select-all");
  if (!button) return;
  const rows = [...list.querySelectorAll(".select-row")];
  const selected = () => rows.filter((row) => row.checked).map((row) => row.value);

  function update({ target } = {}) {
    if (target === all) rows.forEach((row) => { row.checked = all.checked; });
    const count = selected().length;
    button.hidden = count === 0;
    button.textContent = `Delete Selected (${count})`;
    all.checked = count === rows.length;
    all.indeterminate = count > 0 && count < rows.length;
  }

  list.addEventListener("change", update);
  update();
  button.addEventListener("click", () => {
    const ids = selected(), { title, ids: field, delete: path } = list.dataset;
    confirmChange(`Delete ${ids.length} ${title}`, "Are you sure? This cannot be undone.", "Delete", path, { [field]: ids });
  });
})();
