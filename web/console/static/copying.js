// A button beside each line that can be tried, which copies it.
"use strict";

for (const line of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) break;   // the page came over plain HTTP from elsewhere: the line can be marked by hand
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(line.textContent).then(() => { button.textContent = "Copied"; },
      () => { button.textContent = "Not allowed"; });
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  line.after(button);
}
