// Adds a copy button to each example command.
"use strict";

for (const command of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;   // missing on plain HTTP, except on loopback
  const label = dom.make("span", "Copy");
  const target = dom.make("span", ` ${command.dataset.copy}`, "visually-hidden");   // distinguishes the buttons for screen readers
  command.after(dom.makeButton([label, target], async () => {
    await navigator.clipboard.writeText(command.textContent).then(() => { label.textContent = "Copied"; },
      () => { label.textContent = "Not allowed"; });
    setTimeout(() => { label.textContent = "Copy"; }, 1500);
  }, "copy"));
}
