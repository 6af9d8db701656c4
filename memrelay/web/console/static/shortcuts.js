// Keyboard shortcuts. The help in base.html lists them.
"use strict";

(() => {
  const FIELDS = "textarea, select, input:not([type=checkbox], [type=radio])";
  let lost = "";   // the address of a focused link that is being replaced

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

  // Clicks the last button of the key, which belongs to the latest action.
  function press(key) {
    const button = listVisible(`[data-key="${key}"]`).at(-1);
    button?.focus();
    button?.click();
  }

  const actions = {
    "/": search, j: () => move(1), k: () => move(-1), e: press, u: press, "?": () => document.getElementById("help").showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const { key, target, ctrlKey, altKey, metaKey } = event, act = Object.hasOwn(actions, key) && actions[key];
    if (!act || ctrlKey || altKey || metaKey || target.closest(FIELDS) || document.querySelector("dialog[open], :popover-open")) return;
    event.preventDefault();
    act(key);
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    lost = detail.target.contains(findRow()) ? document.activeElement.getAttribute("href") : "";
  });
  document.addEventListener("htmx:afterSwap", () => {
    if (lost && document.activeElement === document.body) document.querySelector(`[data-row] a[href="${CSS.escape(lost)}"]`)?.focus();
    lost = "";
  });
})();
