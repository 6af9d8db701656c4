// Adds a copy button to each example command.
"use strict";

for (const command of document.querySelectorAll("[data-copy]")) {
  const label = dom.make("span", "Copy");
  const target = dom.make("span", ` ${command.dataset.copy}`, "visually-hidden");   // distinguishes the buttons for screen readers
  command.after(dom.makeButton([label, target], async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      label.textContent = "Copied";
    } catch {   // no clipboard on plain HTTP, except on loopback
      getSelection().selectAllChildren(command);
      label.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { label.textContent = "Copy"; }, 3000);
  }, "copy"));
}
