// Adds a copy button to each example command.
"use strict";

for (const command of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;   // missing on plain HTTP, except on loopback
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  const label = document.createElement("span"), target = document.createElement("span");
  label.textContent = "Copy";
  target.className = "visually-hidden";   // lets screen readers distinguish the buttons
  target.textContent = ` ${command.dataset.copy}`;
  button.append(label, target);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command.textContent).then(() => { label.textContent = "Copied"; },
      () => { label.textContent = "Not allowed"; });
    setTimeout(() => { label.textContent = "Copy"; }, 1500);
  });
  command.after(button);
}
