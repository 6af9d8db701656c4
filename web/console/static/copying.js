// A button beside each line that can be tried, which copies it.
"use strict";

for (const line of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;   // the page came over plain HTTP from elsewhere: the line can be marked by hand
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  const word = document.createElement("span"), which = document.createElement("span");
  word.textContent = "Copy";
  which.className = "unseen";   // by which a screen reader tells the buttons apart: what the line is for, and whose it is
  which.textContent = ` ${line.dataset.copy}`;
  button.append(word, which);
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(line.textContent).then(() => { word.textContent = "Copied"; },
      () => { word.textContent = "Not allowed"; });
    setTimeout(() => { word.textContent = "Copy"; }, 1500);
  });
  line.after(button);
}
