// Interprets the times of the search in the viewer's zone.
"use strict";

(() => {
  const field = document.querySelector('.find-messages [name="zone"]');
  if (field.value) return;
  field.value = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  document.getElementById("zone").textContent = `Times are in ${field.value}.`;
})();
