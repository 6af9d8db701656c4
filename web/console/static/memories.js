// The pages below /memories: the selection of rows, deletions, and restored states.
"use strict";

// Send a change and reload the page. Return whether that worked; otherwise the reason is shown.
async function send(url, body) {
  const fault = document.getElementById("fault");
  fault.hidden = true;
  try {
    const answer = await fetch(url, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    // An ended session leads to the login page.
    if (answer.ok || answer.status === 401) {
      location.reload();
      return true;
    }
    fault.textContent = (await answer.json()).detail;
  } catch {
    fault.textContent = "The server does not answer. Reload the page to see whether the change was made.";
  }
  fault.hidden = false;
  return false;
}

const list = document.getElementById("memories");
const dialog = document.getElementById("confirm");
let confirmed = null;

// Show the dialog, which sends a change after a click on the button with this label.
function confirmChange(title, text, label, url, body) {
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = text;
  document.getElementById("confirm-yes").textContent = label;
  document.getElementById("fault").hidden = true;
  confirmed = () => send(url, body);
  dialog.showModal();
}

if (dialog) {
  const yes = document.getElementById("confirm-yes");
  document.getElementById("confirm-no").addEventListener("click", () => dialog.close());
  yes.addEventListener("click", async () => {
    yes.disabled = true;
    yes.disabled = await confirmed();
  });
  for (const forget of list.querySelectorAll(".forget")) {
    const user = forget.dataset.user;
    forget.addEventListener("click", () => confirmChange(
      `Forget ${user}`,
      "This erases the user with all facts, episodes and conversations, and cannot be undone.",
      "Forget",
      forget.dataset.url,
      {},
    ));
  }
}

const button = document.getElementById("delete-selected");
if (button) {
  const all = document.getElementById("select-all");
  const rows = [...list.querySelectorAll(".select-row")];
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
    const ids = selected();
    confirmChange(
      `Delete ${ids.length} ${list.dataset.title}`,
      "Are you sure? This cannot be undone.",
      "Delete",
      list.dataset.delete,
      { [list.dataset.ids]: ids },
    );
  });
}

for (const restore of document.querySelectorAll(".restore")) {
  restore.addEventListener("click", async () => {
    restore.disabled = true;
    const url = restore.closest("[data-restore]").dataset.restore;
    restore.disabled = await send(url, { number: Number(restore.dataset.number) });
  });
}
