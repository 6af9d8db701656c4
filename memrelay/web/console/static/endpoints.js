// Shows the secret of an endpoint once, after it was created or rotated.
"use strict";

document.addEventListener("acted", ({ target, detail }) => {
  if (!target.matches("#create-endpoint, #rotate")) return;
  const details = target.closest("details"), summary = details.querySelector("summary");
  details.open = false;
  target.reset();
  if (!detail.secret) return summary.focus();
  return showSecret("Secret of the endpoint", detail.secret,
    ["Store it at the receiver now. No page and no call shows it again."], "I have stored it", () => summary.focus());
});
