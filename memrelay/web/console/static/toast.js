// Makes elements, and shows the outcome of an action in the corner of the page, with a button "Undo" if it can be undone.
"use strict";

const dom = {
  byId: (id) => document.getElementById(id),

  // `content` is a text, a node, or a list of both.
  make(name, content = [], className = "") {
    const node = document.createElement(name);
    node.append(...[content].flat());
    if (className) node.className = className;
    return node;
  },

  // The first column has texts, the others have numbers.
  makeTable(heads, rows) {
    const makeRow = (name, cells) => dom.make("tr", cells.map((one, at) => dom.make(name, String(one), at ? "n" : "")));
    return dom.make("table", [dom.make("thead", makeRow("th", heads)), dom.make("tbody", rows.map((row) => makeRow("td", row)))]);
  },

  makeButton(text, act, className) {
    const button = dom.make("button", text, className);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  },
};

// `undo` is the call that undoes the action, {line: "POST /v1/…", body}, if there is one.
function toast(text, undo) {
  const SHOWN_MS = 15000, box = dom.make("p", text);
  if (undo) {
    const button = dom.makeButton("Undo", async () => {
      button.disabled = true;
      const answer = await calls.call(undo.line, undo.body);
      box.replaceWith(dom.make("p", answer.ok ? "Undone." : calls.describe(answer)));
      document.dispatchEvent(new Event("refresh"));
    }, "quiet");
    button.dataset.key = "u";
    box.append(" ", button);
  }
  document.getElementById("toasts").replaceChildren(box);
  setTimeout(() => { if (!box.contains(document.activeElement)) box.remove(); }, SHOWN_MS);
}
