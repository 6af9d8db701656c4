// Keyboard shortcuts. The help in base.html lists them.
"use strict";

(() => {
  const FIELDS = "textarea, select, input:not([type=checkbox], [type=radio])";
  let lost = "", place = 0;   // the address of a focused row that is being replaced, and its number

  const listVisible = (selector) => [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility());
  const findLink = (row) => row.querySelector("a, summary, button");
  const findRow = () => document.activeElement.closest("[data-row]");

  function search() {
    const [box] = listVisible("[data-search]");
    if (box) box.focus();
    else location.assign(`${calls.root}/find`);
  }

  function move(step) {
    const rows = listVisible("[data-row]").filter(findLink), at = rows.indexOf(findRow());
    const next = rows[at < 0 && step < 0 ? rows.length - 1 : at + step];
    if (next) findLink(next).focus();
  }

  function keep(row) {
    lost = findLink(row)?.getAttribute("href") ?? "";
    place = listVisible("[data-row]").indexOf(row);
  }

  // Clicks the button of the key in the row, or the last one, which belongs to the latest action.
  function press(key) {
    const row = findRow(), button = row?.querySelector(`[data-key="${key}"]`) ?? listVisible(`[data-key="${key}"]`).at(-1);
    if (row) keep(row);
    button?.focus();
    button?.click();
    button?.closest("details")?.querySelector("textarea")?.focus();
  }

  const actions = {
    "/": search, j: () => move(1), k: () => move(-1), e: press, u: press, a: press, r: press, "?": () => document.getElementById("help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const { key, target, ctrlKey, altKey, metaKey } = event, act = Object.hasOwn(actions, key) && actions[key];
    if (!act || ctrlKey || altKey || metaKey || target.closest(FIELDS) || document.querySelector("dialog[open], :popover-open")) return;
    event.preventDefault();
    act(key);
  });
  document.addEventListener("refreshing", ({ target }) => {
    const row = findRow();
    if (row && target.contains(row)) keep(row);
  });
  document.addEventListener("refreshed", () => {
    if (lost && document.activeElement === document.body) {
      const rows = listVisible("[data-row]"), row = rows[Math.min(place, rows.length - 1)];
      (document.querySelector(`[data-row] a[href="${CSS.escape(lost)}"]`) ?? (row && findLink(row)))?.focus();
    }
    lost = "";
  });
})();
