// Fetches the parts of the page that have `data-refresh="ADDRESS"` once a second, and morphs those that have changed.
// An answer 304 means that nothing has changed. The content stays while the server does not answer. An element of an
// answer with `data-replace="ID"` becomes the content of the element with that id.
"use strict";

(() => {
  const INTERVAL_MS = 1000, RETRY_MS = 5000, TIMEOUT_MS = 10000;
  const parts = [...document.querySelectorAll("[data-refresh]")];
  const tags = new WeakMap(), last = new WeakMap();   // part -> its ETag, and the HTML that it shows
  const faultLine = document.getElementById("refresh-fault");
  let timer = 0, isBusy = false, isWanted = false, isPressed = false;
  if (!parts.length) return;

  async function refresh() {
    clearTimeout(timer);
    timer = 0;
    if (document.hidden || isBusy) return;
    isBusy = true;
    const isForced = isWanted;
    isWanted = false;
    const fault = (await Promise.all(parts.map((part) => update(part, isForced)))).find(Boolean) ?? "";
    if (faultLine.textContent !== fault) faultLine.textContent = fault;
    faultLine.hidden = !fault;
    isBusy = false;
    timer = setTimeout(refresh, fault ? RETRY_MS : isWanted ? 0 : INTERVAL_MS);
  }

  // Returns the fault, "" for none.
  async function update(part, isForced) {
    const headers = { Accept: "text/html", ...(tags.has(part) ? { "If-None-Match": tags.get(part) } : {}), ...(isForced ? { "Cache-Control": "no-cache" } : {}) };
    let response, text;
    try {
      response = await fetch(part.dataset.refresh, { headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
      text = await response.text();
    } catch {
      return "The server does not respond. Retrying every 5 seconds.";
    }
    if (response.status === 304) return "";
    if (!response.ok) return describeFault(response.status, text);
    if (response.headers.has("Refresh")) location.reload();   // the page itself has another form now
    else if (!isInUse(part)) show(part, text, response.headers.get("ETag") ?? "");
    return "";
  }

  function describeFault(status, text) {
    if (status === 401 && document.querySelector("[data-dirty]")) return "You are logged out. Log in again.";
    if (status === 401) {
      const page = location.pathname.slice(calls.root.length) + location.search;
      location.assign(`${calls.root}/login?next=${encodeURIComponent(page)}`);
      return "";
    }
    if (status === 404) return "This pipeline is not active.";
    if (status === 503) return readNotice(text) || "The bus does not respond. Retrying every 5 seconds.";
    return status === 504 ? "No response in time. Retrying every 5 seconds." : `The server answers with error ${status}.`;
  }

  function readNotice(text) {
    try {
      return JSON.parse(text).notice;
    } catch {
      return "";
    }
  }

  // A refresh must not remove the user's selection, a form that the user is filling in, an open question, or move what
  // the user is clicking.
  function isInUse(part) {
    const selection = getSelection();
    const isSelected = !selection.isCollapsed && part.contains(selection.anchorNode);
    return isPressed || isSelected || part.querySelector("[data-dirty], dialog[open], :popover-open") !== null;
  }

  function show(part, text, tag) {
    tags.set(part, tag);
    if (last.get(part) === text) return;
    last.set(part, text);
    const { content } = Object.assign(document.createElement("template"), { innerHTML: text });
    part.dispatchEvent(new CustomEvent("refreshing", { bubbles: true, detail: content }));
    for (const other of content.querySelectorAll("[data-replace]")) {
      other.remove();
      morph(document.getElementById(other.dataset.replace), other);
    }
    morph(part, content);
    part.dispatchEvent(new CustomEvent("refreshed", { bubbles: true }));
  }

  // Elements with the same id stay, and so do rows with the same first link.
  function morph(target, content) {
    if (!target) return;
    identifyRows(target);
    identifyRows(content);
    Idiomorph.morph(target, [...content.childNodes], { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: isServers } });
  }

  function identifyRows(tree) {
    const counts = new Map();   // link -> how many rows begin with it
    for (const row of tree.querySelectorAll("[data-row]:is(:not([id]), [id^='row:'])")) {
      const link = row.querySelector("a[href]")?.getAttribute("href"), count = (counts.get(link) ?? 0) + 1;
      counts.set(link, count);
      if (link) row.id = `row:${count}:${encodeURIComponent(link)}`;
    }
  }

  // Whether the server decides about an attribute: the user opens and closes details.
  function isServers(name, node) {
    return !(name === "open" && node.matches("details"));
  }

  document.addEventListener("pointerdown", () => { isPressed = true; });
  for (const end of ["pointerup", "pointercancel", "dragend"]) document.addEventListener(end, () => { isPressed = false; });
  document.addEventListener("acted", ({ target }) => { if (target.matches(":popover-open")) target.hidePopover(); });
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("refresh", (event) => {
    if (event.target !== document) return;
    isWanted = true;   // the page itself has changed something
    refresh();
  });
  timer = setTimeout(refresh, INTERVAL_MS);
})();
