// The page of a record: the form that edits it in place, the comparison of versions, and the guid that confirms an erasure.
"use strict";

(() => {
  const part = document.getElementById("record"), history = document.getElementById("history");
  let hasActed = false;   // the next refresh shows what the user has just done

  // A form that is open is never replaced, even before its first change.
  function show(form, isOpen) {
    form.hidden = !isOpen;
    for (const view of part.querySelectorAll("[data-view]")) view.hidden = isOpen;
    part.querySelector("[data-edit]").hidden = isOpen;
    if (isOpen) form.dataset.dirty = "";
    if (isOpen) form.elements.content.focus();
    else part.querySelector("[data-edit]").focus();
  }

  part.addEventListener("click", ({ target }) => {
    if (target.closest("[data-edit]")) show(part.querySelector(".edit"), true);
  });
  part.addEventListener("reset", ({ target }) => show(target, false));
  for (const one of [part, history]) {
    one.addEventListener("acted", ({ target }) => {
      hasActed = true;
      if (target.matches(".edit")) show(target, false);
    });
    one.addEventListener("refreshed", () => {
      if (hasActed && document.activeElement === document.body) part.querySelector("[data-key]")?.focus();
      hasActed = false;
    });
  }

  // The fields of the comparison are not replaced while they are in use.
  history.addEventListener("focusin", ({ target }) => {
    if (target.matches(".versions input")) target.form.dataset.dirty = "";
  });
  history.addEventListener("focusout", ({ target }) => {
    const inputs = [...(target.form?.matches(".versions") ? target.form.elements : [])];
    if (inputs.every(({ value, defaultValue }) => value === defaultValue)) delete target.form?.dataset.dirty;
  });

  const confirmed = document.querySelector("[data-confirm]");
  confirmed?.addEventListener("input", () => {
    const isSame = confirmed.value.trim() === confirmed.dataset.confirm;
    confirmed.setCustomValidity(isSame ? "" : "This is not the guid of the record.");
  });
})();
