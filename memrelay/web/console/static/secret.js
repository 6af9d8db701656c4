// Shows a secret once after its creation (fragments/secret.html). Nothing replaces it until the user has stored it.
"use strict";

// `close` is called after the user has stored the secret.
function showSecret(title, secret, notes, label, close) {
  const { byId } = dom, box = byId("created"), code = box.querySelector("code");
  box.dataset.dirty = "";   // see refresh.js
  box.hidden = false;
  byId("created-title").textContent = title;
  code.textContent = secret;
  box.querySelector("ul").replaceChildren(...notes.map((note) => dom.make("li", note)));
  box.querySelector(".buttons").replaceChildren(dom.makeButton(label, () => {
    delete box.dataset.dirty;
    box.hidden = true;
    code.textContent = "";
    close();
  }));
  box.scrollIntoView({ block: "nearest" });
  box.focus();
}
