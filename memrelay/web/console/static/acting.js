// Sends forms with `data-call` as JSON to the public API, and shows the outcome. base.html explains the attributes.
"use strict";

const acting = (() => {
  const { call, describe } = calls, { make, makeButton } = dom;
  const keys = new WeakMap();   // form -> [body, idempotency key]

  function readControl(control) {
    const { value, dataset, type, checked } = control;
    if (dataset.type === "json") return JSON.parse(value);
    if (dataset.type === "number") return Number(value);
    if (type === "datetime-local") return new Date(value).toISOString();
    if (dataset.type === "list") return value.split(/[,\n]/).map((part) => part.trim()).filter(Boolean);
    return type === "checkbox" ? checked : value;
  }

  function isChanged({ type, checked, defaultChecked, value, defaultValue, options }) {
    if (type === "checkbox") return checked !== defaultChecked;
    return options ? [...options].some((one) => one.selected !== one.defaultSelected) : value !== defaultValue;
  }

  function readBody(form) {
    const body = JSON.parse(form.dataset.body ?? "{}");
    for (const control of form.elements) {
      const { name, dataset, type, checked, value } = control;
      const isLeftOut = !name || control.disabled || "omit" in dataset || (type === "radio" && !checked)
        || ("changed" in form.dataset && !isChanged(control)) || (value === "" && "optional" in dataset);
      if (isLeftOut) continue;
      if (dataset.type !== "choice") body[name] = readControl(control);
      else body[name] = [...(body[name] ?? []), ...(checked ? [value] : [])];
    }
    return body;
  }

  function clear(form) {
    form.querySelectorAll(".fault, .conflict").forEach((node) => node.remove());
    for (const control of form.elements) control.removeAttribute("aria-invalid");
  }

  function showFault(form, text, faults = []) {
    const box = make("div", make("p", text), "fault bad");
    box.role = "alert";
    for (const { pointer, rule, suggestion } of faults) {
      form.elements[pointer?.split("/").find(Boolean)]?.setAttribute?.("aria-invalid", "true");
      box.append(make("p", `${pointer}: ${rule}${suggestion ? `; ${suggestion}` : ""}`));
    }
    form.append(box);
  }

  // After a 412: shows both versions and asks which to keep.
  async function showConflict(form, mine) {
    const { ok, body: theirs, ...answer } = await call(`GET ${form.dataset.current}`);
    if (!ok) return showFault(form, describe(answer));
    const sides = make("div", [], "sides");
    for (const [title, version] of [["Yours", mine], ["Theirs", theirs]]) {
      const side = make("div", make("h3", title));
      for (const name of Object.keys(mine).filter((one) => one in theirs)) {
        side.append(make("p", name, "note"), make("pre", typeof version[name] === "string" ? version[name] : JSON.stringify(version[name])));
      }
      sides.append(side);
    }
    const save = makeButton("Save mine", () => {
      delete form.dataset.undo;   // it would skip their version
      form.dataset.version = theirs.version;
      form.requestSubmit();
    });
    const keep = makeButton("Keep theirs", () => { delete form.dataset.dirty; location.reload(); }, "quiet");
    const box = make("div", [make("p", "This record has changed since you opened it."), sides, save, " ", keep], "conflict");
    box.role = "alert";
    form.append(box);
    return save.focus();
  }

  function finish(form, answer) {
    delete form.dataset.dirty;
    const { review, dropped } = answer.body ?? {};
    if (review || dropped) {   // a policy has stopped the write
      toast(review ? "It waits for review." : `The policy "${dropped}" drops it.`);
      return document.dispatchEvent(new Event("refresh"));
    }
    const { undo, undoBody, then } = form.dataset, fill = (text) => text.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(answer.body[name]));
    const done = fill(form.dataset.done ?? "Done.");
    const undoing = undo && { line: undo, body: JSON.parse(undoBody ?? "{}") };
    form.dispatchEvent(new CustomEvent("acted", { bubbles: true, detail: answer.body }));
    if (then) {
      sessionStorage.setItem("toast", JSON.stringify([done, undoing]));
      return location.assign(fill(then));
    }
    if (done) toast(done, undoing);
    return document.dispatchEvent(new Event("refresh"));
  }

  async function submit(form) {
    clear(form);
    let body;
    try {
      body = readBody(form);
    } catch {
      return showFault(form, "A field is not valid JSON.");
    }
    const text = JSON.stringify(body), [sent, used] = keys.get(form) ?? [];
    const key = sent === text ? used : crypto.randomUUID();
    keys.set(form, [text, key]);   // a retry of the same change has the same key
    const headers = { "Idempotency-Key": key, ...(form.dataset.version ? { "If-Match": `"${form.dataset.version}"` } : {}) };
    const answer = await call(form.dataset.call, body, headers);
    if (answer.status && answer.status < 500) keys.delete(form);
    if (answer.status === 412 && form.dataset.current) return showConflict(form, body);
    return answer.ok ? finish(form, answer) : showFault(form, describe(answer), answer.body?.faults);
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.call) return;
    event.preventDefault();
    const buttons = [...form.querySelectorAll("button:not([disabled])")];
    buttons.forEach((button) => { button.disabled = true; });
    await submit(form);
    buttons.forEach((button) => { button.disabled = false; });
  });
  document.addEventListener("input", ({ target }) => { if (target.form?.matches("[data-call], #send")) target.form.dataset.dirty = ""; });
  document.addEventListener("reset", ({ target }) => { delete target.dataset.dirty; clear(target); });
  const kept = sessionStorage.getItem("toast");
  sessionStorage.removeItem("toast");
  if (kept) toast(...JSON.parse(kept));
  return { call, describe, make, makeButton, toast };
})();
