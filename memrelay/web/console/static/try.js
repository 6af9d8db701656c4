// The API reference: sends the calls of its forms and shows the responses. The example command
// follows the inputs, so it repeats the call in a shell.
"use strict";

(() => {
  const MAX_CHARACTERS = 20000, MAX_BYTES = 1000000, MAX_WAIT_MS = 30000, MAX_PIPELINES = 100;
  const HEADERS = ["content-type", "etag", "location", "retry-after", "x-request-id"];
  const dialog = document.getElementById("confirm-call"), pipelines = document.getElementById("pipelines");
  const forms = [...document.querySelectorAll("form[data-try]")];

  // The inputs of a place (path, query or header) that have a value.
  function filled(form, place) {
    return [...form.querySelectorAll(`[data-in="${place}"]`)].filter((input) => input.value.trim() !== "");
  }

  function makeUrl(form) {
    let path = form.dataset.path;
    for (const input of form.querySelectorAll('[data-in="path"]')) {
      const value = encodeURIComponent(input.value.trim()).replace(/^\.+$/, (dots) => dots.replaceAll(".", "%2E"));
      path = path.replace(`{${input.name}}`, value || input.name.toUpperCase());
    }
    const query = new URLSearchParams();
    for (const input of filled(form, "query")) {
      const values = "list" in input.dataset ? input.value.split(",") : [input.value];
      for (const value of values) query.append(input.name, value.trim());
    }
    return query.size ? `${path}?${query}` : path;
  }

  // A browser may change something only with a body type that foreign pages cannot send.
  function makeRequest(form) {
    const body = form.querySelector("textarea"), method = form.dataset.method, headers = {};
    if (method !== "GET") headers["Content-Type"] = body?.dataset.type ?? "application/json";
    for (const input of filled(form, "header")) headers[input.name] = input.value.trim();
    return { method, headers, ...(body?.value.trim() ? { body: body.value } : {}) };
  }

  function quote(text) {
    return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
  }

  // JSON with another indentation. A text that is no JSON, or was cut off, stays as it is.
  function reformat(text, indent) {
    try {
      return JSON.stringify(JSON.parse(text), null, indent);
    } catch {
      return text;
    }
  }

  function showCommand(form) {
    const { method, headers, body } = makeRequest(form), parts = ["curl"];
    if (method !== "GET") parts.push("-X", method);
    parts.push(quote(location.origin + makeUrl(form)));
    for (const [name, value] of Object.entries(headers)) {
      if (name !== "Content-Type" || body) parts.push("-H", quote(`${name}: ${value}`));
    }
    if (body) parts.push("-d", quote(reformat(body)));
    form.closest("article").querySelector(".example code").textContent = parts.join(" ");
  }

  // The begin of the body, and whether that is all of it. A stream may never end.
  async function readBody(response) {
    const reader = response.body?.getReader(), decoder = new TextDecoder();
    let text = "", size = 0;
    try {
      while (reader && size < MAX_BYTES) {
        const { done, value } = await reader.read();
        if (done) return [text + decoder.decode(), true];
        size += value.length;
        text += decoder.decode(value, { stream: true });
      }
      await reader?.cancel();
    } catch {
      return [text, false];
    }
    return [text, !reader];
  }

  async function send(form) {
    const status = form.querySelector("[role=status]"), box = form.querySelector(".response");
    const [headers, body] = box.querySelectorAll("pre"), button = form.querySelector("button");
    const start = performance.now(), elapsed = () => `${Math.round(performance.now() - start)} ms`;
    button.disabled = box.hidden = true;
    status.textContent = "Sending …";
    try {
      const response = await fetch(makeUrl(form), { ...makeRequest(form), redirect: "manual", signal: AbortSignal.timeout(MAX_WAIT_MS) });
      const [text, isWhole] = await readBody(response), type = response.headers.get("content-type") ?? "";
      const shown = /\bjson\b/.test(type) ? reformat(text, 2) : text, isCut = !isWhole || shown.length > MAX_CHARACTERS;
      const outcome = response.type === "opaqueredirect" ? "Redirect to another page" : `${response.status} ${response.statusText}`;
      status.textContent = `${outcome}, ${elapsed()}${isCut ? `, first ${Math.min(shown.length, MAX_CHARACTERS)} characters` : ""}`;
      headers.textContent = HEADERS.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`).join("\n");
      body.textContent = shown.slice(0, MAX_CHARACTERS) || "No body";
      box.hidden = false;
    } catch (error) {
      status.textContent = error.name === "TimeoutError" ? "No response in time. The change may still be applied." : "The server does not respond.";
    }
    button.disabled = false;
    if (document.activeElement === document.body) button.focus();   // lost while it was disabled
  }

  function confirmCall(form) {
    dialog.querySelector("code").textContent = `${form.dataset.method} ${decodeURI(makeUrl(form))}`;
    dialog.onclose = () => { if (dialog.returnValue === "send") send(form); };
    dialog.returnValue = "";
    dialog.showModal();
  }

  // Offers the pipelines of the session. A single one is filled in.
  async function offerPipelines() {
    if (pipelines.dataset.asked) return;
    pipelines.dataset.asked = "yes";
    const { ok, body } = await calls.call(`GET ${calls.root}/v1/pipelines?limit=${MAX_PIPELINES}`);
    if (!ok) return;
    const { items } = body;
    pipelines.replaceChildren(...items.map((item) => new Option(item.name, item.pipeline_uid)));
    if (items.length === 1) fillUid(items[0].pipeline_uid);
  }

  // Fills in the uid of all forms that have none.
  function fillUid(uid) {
    for (const input of document.querySelectorAll('form[data-try] input[name="uid"]')) {
      if (!input.value) input.value = uid;
      if (input.value === uid) showCommand(input.form);
    }
  }

  for (const form of forms) {
    form.parentElement.querySelector(".needs-js").remove();
    form.hidden = false;
    form.addEventListener("input", () => showCommand(form));
    form.addEventListener("change", (event) => { if (event.target.name === "uid") fillUid(event.target.value.trim()); });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if ("confirm" in form.dataset) confirmCall(form);
      else send(form);
    });
    form.parentElement.addEventListener("toggle", offerPipelines);
  }
})();
