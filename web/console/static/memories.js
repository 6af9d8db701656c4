// The page /memories: local times, the selection of rows, and their deletion.
"use strict";

for (const time of document.querySelectorAll("time.local")) {
  const at = new Date(time.dateTime);
  const day = at.toLocaleDateString("en-US", { month: "short", day: "numeric" });
  const clock = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  time.textContent = `${day}, ${clock}`;
  time.title = at.toLocaleString();
}

const list = document.getElementById("memories");
const button = document.getElementById("delete-selected");
if (list && button) {
  const all = document.getElementById("select-all");
  const rows = [...list.querySelectorAll(".select-row")];
  const dialog = document.getElementById("confirm-delete");
  const fault = document.getElementById("delete-fault");
  const doDelete = document.getElementById("do-delete");
  const selected = () => rows.filter((row) => row.checked).map((row) => row.value);

  const update = () => {
    const count = selected().length;
    button.hidden = count === 0;
    button.textContent = `Delete Selected (${count})`;
    all.checked = count === rows.length;
    all.indeterminate = count > 0 && count < rows.length;
  };
  all.addEventListener("change", () => {
    for (const row of rows) row.checked = all.checked;
    update();
  });
  for (const row of rows) row.addEventListener("change", update);
  update();

  button.addEventListener("click", () => {
    document.getElementById("confirm-title").textContent = `Delete ${selected().length} ${list.dataset.title}`;
    fault.hidden = true;
    dialog.showModal();
  });
  document.getElementById("cancel-delete").addEventListener("click", () => dialog.close());
  doDelete.addEventListener("click", async () => {
    doDelete.disabled = true;
    const body = JSON.stringify({ [list.dataset.ids]: selected() });
    try {
      const answer = await fetch(list.dataset.delete, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (answer.ok) {
        location.reload();
        return;
      }
      fault.textContent = (await answer.json()).detail;
    } catch {
      fault.textContent = "The server does not answer. Nothing was deleted, or the answer was lost: reload the page.";
    }
    fault.hidden = false;
    doDelete.disabled = false;
  });
}

const states = document.querySelector("[data-restore]");
if (states) {
  const fault = document.getElementById("restore-fault");
  for (const restore of states.querySelectorAll(".restore")) {
    restore.addEventListener("click", async () => {
      const body = JSON.stringify({ number: Number(restore.dataset.number) });
      const answer = await fetch(states.dataset.restore, { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (answer.ok) {
        location.reload();
        return;
      }
      fault.textContent = (await answer.json()).detail;
      fault.hidden = false;
    });
  }
}
