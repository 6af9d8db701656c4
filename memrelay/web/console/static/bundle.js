// Checks and deploys the bundle as it was typed: JSON that is parsed and written again would lose its layout.
"use strict";

(() => {
  const { make, makeButton, byId } = dom, form = byId("bundle");
  const { text } = form?.elements ?? {}, { path, number, page } = form?.dataset ?? {};

  async function send(method, url, headers = {}) {
    try {
      const body = text.value, sent = { Accept: "application/json", "Content-Type": "application/json", ...headers };
      const response = await fetch(url, { method, body, headers: sent });
      return { ok: response.ok, status: response.status, body: await response.json() };
    } catch {
      return { ok: false, status: 0, body: null };
    }
  }

  function show(title, parts = [], isBad = true) {
    byId("outcome").replaceChildren(make("p", title, isBad ? "bad" : ""), ...parts);
    text.ariaInvalid = isBad ? "true" : null;
  }

  function makeFault({ line, pointer, rule, suggestion, severity }) {
    const warning = severity === "warning" ? "warning: " : "";
    const button = makeButton(`Line ${line}`, () => {
      const start = text.value.split("\n", line - 1).join("\n").length + (line > 1);
      text.focus();
      text.setSelectionRange(start, start + (text.value.split("\n")[line - 1] ?? "").length);
    }, "quiet");
    return make("li", [button, " ", make("code", pointer || "/"), ` ${warning}${rule}${suggestion ? `; ${suggestion}` : ""}`]);
  }

  async function checkText() {
    const answer = await send("POST", `${path}/check`);
    if (!answer.ok) return show(calls.describe(answer));
    const { valid, faults } = answer.body, count = faults.filter((one) => one.severity !== "warning").length;
    return show(valid ? "No faults." : `${count} fault${count === 1 ? "" : "s"}.`, [make("ul", faults.map(makeFault))], !valid);
  }

  async function deploy(version) {
    const answer = await send("PUT", path, { "If-Match": `"${version}"` });
    if (answer.status === 422) return checkText();
    if (answer.status === 412) return showConflict(answer.body.active);
    if (!answer.ok) return show(calls.describe(answer));
    delete form.dataset.dirty;
    const undo = { line: `POST ${path}/rollback`, body: { version: Number(number) } };
    sessionStorage.setItem("toast", JSON.stringify([`Deployed as version ${answer.body.version}.`, undo]));
    return location.assign(page);
  }

  function showConflict(active) {
    const mine = makeButton("Deploy mine", () => deploy(active));
    const theirs = makeButton("Keep theirs", () => { delete form.dataset.dirty; location.assign(page); }, "quiet");
    const changes = make("a", "Compare the versions");
    changes.href = `${page}?from=${number}#compare`;
    show("A newer version was deployed since you opened this page.", [make("p", [mine, " ", theirs, " ", changes])]);
  }

  byId("rehearse")?.addEventListener("click", ({ target }) => {
    delete form.dataset.dirty;
    sessionStorage.setItem("candidate", text.value);   // see upload.js
    location.assign(target.dataset.page);
  });
  byId("check")?.addEventListener("click", checkText);
  form?.addEventListener("submit", (event) => { event.preventDefault(); deploy(form.dataset.version); });
  text?.addEventListener("input", () => { form.dataset.dirty = ""; });
})();
