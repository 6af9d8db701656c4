// The page of a person: a name that must be typed before it is forgotten.
"use strict";

for (const control of document.querySelectorAll("[data-confirm]")) {
  const check = () => control.setCustomValidity(control.value.trim() === control.dataset.confirm.trim() ? "" : "This is not the name.");
  control.addEventListener("input", check);
}
