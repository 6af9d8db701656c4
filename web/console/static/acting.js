// Sends a form with `data-call="METHOD /path"` as JSON to the public API, and shows the outcome. Attributes of the form:
// data-version: the ETag for If-Match. data-current: the address of the present version, shown after a 412.
// data-done: the text after success. data-undo, data-undo-body: the call that undoes it. data-then: the page to go to.
// data-body: fixed fields. data-changed: only changed fields are sent. Controls have data-type (json, number, list,
// choice), data-optional (left out if empty) and data-omit. The form gets the event `acted` with the answer.
"use strict";

const acting = (() => {
  const TOAST_MS = 15000, LOGGED_OUT = "You are logged out. Log in again.";
  const SILENT = "The server does not respond. The change may still be applied; send it again to be sure.";
  const toasts = document.getElementById("toasts"), keys = new WeakMap();   // form -> [body, idempotency key]

  function make(name, text, className) {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  }

  function makeButton(text, act, className) {
    const button = make("button", text, className);
    button.type = "button";
    button.addEventListener("click", act);
    return button;
  }

  function readControl(control) {
    const { value, dataset, type, checked } = control;
    if (dataset.type === "json") return JSON.parse(value);
    if (dataset.type === "number") return Number(value);
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

  // Sends a call. GET and DELETE have their fields in the URL.
  async function call(line, body = {}, headers = {}) {
    const [method, path] = line.split(" "), isBodiless = method === "GET" || method === "DELETE";
    const fields = isBodiless ? new URLSearchParams(Object.entries(body)).toString() : "";
    const response = await fetch(fields ? `${path}${path.includes("?") ? "&" : "?"}${fields}` : path, {
      method,
      headers: { Accept: "application/json", ...(method === "GET" ? {} : { "Content-Type": "application/json" }), ...headers },
      body: isBodiless ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    return { ok: response.ok, status: response.status, body: text ? JSON.parse(text) : null };
  }

  function describe({ status, body }) {
    if (status === 401) return LOGGED_OUT;
    if (status === 504) return "No response in time. The change may still be applied.";
    return body?.detail ?? `The server answers with error ${status}.`;
  }

  function toast(text, undo) {
    const box = make("p", text);
    if (undo) {
      const button = makeButton("Undo", async () => {
        button.disabled = true;
        const answer = await call(undo.line, undo.body).catch(() => ({ ok: false, body: { detail: SILENT } }));
        box.replaceWith(make("p", answer.ok ? "Undone." : describe(answer)));
        document.dispatchEvent(new Event("refresh"));
      }, "quiet");
      button.dataset.key = "u";
      box.append(" ", button);
    }
    toasts.replaceChildren(box);
    setTimeout(() => { if (!box.contains(document.activeElement)) box.remove(); }, TOAST_MS);
  }

  function clear(form) {
    form.querySelectorAll(".fault, .conflict").forEach((node) => node.remove());
    for (const control of form.elements) control.removeAttribute("aria-invalid");
  }

  function showFault(form, text, faults = []) {
    const box = make("div", undefined, "fault bad");
    box.role = "alert";
    box.append(make("p", text));
    for (const { pointer, rule, suggestion } of faults) {
      form.elements[pointer?.split("/").find(Boolean)]?.setAttribute?.("aria-invalid", "true");
      box.append(make("p", `${pointer}: ${rule}${suggestion ? `; ${suggestion}` : ""}`));
    }
    form.append(box);
  }

  // After a 412: shows both versions and asks which to keep.
  async function showConflict(form, mine) {
    const { body: theirs } = await call(`GET ${form.dataset.current}`);
    const box = make("div", undefined, "conflict"), sides = make("div", undefined, "sides");
    box.role = "alert";
    for (const [title, version] of [["Yours", mine], ["Theirs", theirs]]) {
      const side = make("div");
      side.append(make("h3", title));
      for (const name of Object.keys(mine).filter((one) => one in theirs)) {
        side.append(make("p", name, "note"), make("pre", typeof version[name] === "string" ? version[name] : JSON.stringify(version[name])));
      }
      sides.append(side);
    }
    const save = makeButton("Save mine", () => { form.dataset.version = theirs.version; form.requestSubmit(); });
    const keep = makeButton("Keep theirs", () => { delete form.dataset.dirty; location.reload(); }, "quiet");
    box.append(make("p", "This record has changed since you opened it."), sides, save, " ", keep);
    form.append(box);
    save.focus();
  }

  function finish(form, answer) {
    delete form.dataset.dirty;
    const { done = "Done.", undo, undoBody, then } = form.dataset;
    const undoing = undo && { line: undo, body: JSON.parse(undoBody ?? "{}") };
    form.dispatchEvent(new CustomEvent("acted", { bubbles: true, detail: answer.body }));
    if (then) sessionStorage.setItem("toast", JSON.stringify([done, undoing]));
    if (then) return location.assign(then);
    toast(done, undoing);
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
    try {
      const answer = await call(form.dataset.call, body, headers);
      if (answer.status < 500) keys.delete(form);
      if (answer.status === 412 && form.dataset.current) return await showConflict(form, body);
      return answer.ok ? finish(form, answer) : showFault(form, describe(answer), answer.body?.faults);
    } catch {
      return showFault(form, SILENT);
    }
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
