// Fetches the parts of the page that have `data-refresh` once a second, and replaces those that have changed.
// An answer 304 means that nothing has changed. The content stays while the server does not answer.
"use strict";

(() => {
  const INTERVAL_MS = 1000, RETRY_MS = 5000;
  const parts = [...document.querySelectorAll("[data-refresh]")];
  const tags = new WeakMap(), last = new WeakMap();   // part -> its ETag, and the HTML that it shows
  const faultLine = document.getElementById("refresh-fault");
  let timer = 0, pending = 0, fault = "", isWanted = false, isForced = false;
  if (!parts.length) return;

  function refresh() {
    clearTimeout(timer);
    timer = 0;
    if (document.hidden || pending) return;
    pending = parts.length;
    fault = "";
    isForced = isWanted;
    isWanted = false;
    for (const part of parts) htmx.trigger(part, "refresh");
  }

  function finish() {
    if (faultLine.textContent !== fault) faultLine.textContent = fault;
    faultLine.hidden = !fault;
    timer = setTimeout(refresh, fault ? RETRY_MS : isWanted ? 0 : INTERVAL_MS);
  }

  function readNotice(xhr) {
    try {
      return JSON.parse(xhr.responseText).notice;
    } catch {
      return "";
    }
  }

  function describeFault(xhr) {
    if (!xhr.status) return "The server does not respond. Retrying every 5 seconds.";
    if (xhr.status === 404) return "This pipeline is not active.";
    if (xhr.status === 503) return readNotice(xhr) || "The bus does not respond. Retrying every 5 seconds.";
    return xhr.status === 504 ? "No response in time. Retrying every 5 seconds." : `The server answers with error ${xhr.status}.`;
  }

  // A refresh must not remove the user's selection, a form that the user is filling in, or an open question.
  function isInUse(part) {
    const selection = getSelection();
    const isSelected = !selection.isCollapsed && part.contains(selection.anchorNode);
    return isSelected || part.querySelector("[data-dirty], dialog[open], :popover-open") !== null;
  }

  document.addEventListener("htmx:configRequest", ({ detail }) => {
    if (!parts.includes(detail.elt)) return;
    if (tags.has(detail.elt)) detail.headers["If-None-Match"] = tags.get(detail.elt);
    if (isForced) detail.headers["Cache-Control"] = "no-cache";
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    const { target, xhr, isError } = detail;
    if (!parts.includes(target) || isError || xhr.status === 304) return;
    if (isInUse(target)) {
      detail.shouldSwap = false;
      return;
    }
    tags.set(target, xhr.getResponseHeader("ETag") ?? "");
    if (last.get(target) === xhr.responseText) detail.shouldSwap = false;
    else last.set(target, xhr.responseText);
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (!parts.includes(detail.elt)) return;
    const { status } = detail.xhr;
    if (status === 401 && !document.querySelector("[data-dirty]")) {
      const page = location.pathname.slice(calls.root.length) + location.search;
      location.assign(`${calls.root}/login?next=${encodeURIComponent(page)}`);
    } else if (status === 401) {
      fault = "You are logged out. Log in again.";
    } else if (!detail.successful && status !== 304) {
      fault = describeFault(detail.xhr);
    }
    pending -= 1;
    if (!pending) finish();
  });
  document.addEventListener("acted", ({ target }) => { if (target.matches(":popover-open")) target.hidePopover(); });
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("refresh", (event) => {
    if (event.target !== document) return;
    isWanted = true;   // the page itself has changed something
    refresh();
  });
  timer = setTimeout(refresh, INTERVAL_MS);
})();
