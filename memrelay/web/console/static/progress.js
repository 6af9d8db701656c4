// Shows the outcome of a sequence of calls in a box with role=status, and its progress with a button that stops it.
"use strict";

const makeProgress = (box) => {
  let isStopped = false;

  // `link` is the address of what went wrong.
  function show(text, link) {
    box.hidden = false;
    box.className = link ? "warning" : "notice";
    const anchor = dom.make("a", "Show it");
    anchor.href = link;
    box.replaceChildren(dom.make("span", text), ...(link ? [" ", anchor] : []));
  }

  function step(count, total) {
    if (!box.querySelector("progress")) {
      const bar = dom.make("progress");
      bar.max = total;
      bar.ariaLabel = "Replayed";
      show("");
      box.append(bar, " ", dom.makeButton("Stop", () => { isStopped = true; }, "quiet"));
    }
    box.querySelector("progress").value = count;
    box.firstChild.textContent = `Replayed ${count} of ${total}. `;
  }

  return { show, step, start() { isStopped = false; }, get isStopped() { return isStopped; } };
};
