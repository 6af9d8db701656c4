// Refreshes each part with `data-refresh`: htmx fetches it and replaces it if it has changed.
//
// An open page does not grow, because every part has a bounded size. The next refresh is scheduled
// when all answers have arrived. A hidden page does not refresh, and a page without answers
// refreshes less and less often.
"use strict";

(() => {
  const INTERVAL_MS = 1500, MAX_INTERVAL_MS = 30000, LOGGED_OUT = "You are logged out";
  const parts = [...document.querySelectorAll("[data-refresh]")];
  const last = new WeakMap();   // part -> the HTML that it shows
  const faultLine = document.getElementById("refresh-fault");
  let timer = 0, pending = 0, interval_ms = INTERVAL_MS, fault = "", answered_at = new Date();
  if (!parts.length) return;

  function refresh() {
    clearTimeout(timer);
    timer = 0;
    if (document.hidden || pending) return;
    pending = parts.length;
    fault = "";
    for (const part of parts) htmx.trigger(part, "refresh");
  }

  function finish() {
    if (fault) {
      interval_ms = Math.min(2 * interval_ms, MAX_INTERVAL_MS);
    } else {
      interval_ms = INTERVAL_MS;
      answered_at = new Date();
    }
    const fix = fault === LOGGED_OUT ? " Reload this page to log in." : "";
    const text = fault && `${fault} since ${answered_at.toLocaleTimeString("en-GB")}.${fix}`;
    if (faultLine.textContent !== text) faultLine.textContent = text;
    faultLine.hidden = !text;
    timer = setTimeout(refresh, interval_ms);
  }

  function describeFault(xhr) {
    if (!xhr.status) return "No answer from the server";
    if (xhr.status === 401) return LOGGED_OUT;
    if (xhr.status === 404) return "This pipeline is not active";
    return xhr.status === 503 ? "The server runs, but the bus does not answer" : `The server answers with error ${xhr.status}`;
  }

  // A refresh must not remove the user's selection.
  function hasSelection(part) {
    const selection = getSelection();
    return !selection.isCollapsed && part.contains(selection.anchorNode);
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr, isError } = event.detail;
    if (!parts.includes(target) || isError) return;
    if (last.get(target) === xhr.responseText || hasSelection(target)) event.detail.shouldSwap = false;
    else last.set(target, xhr.responseText);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!parts.includes(event.detail.elt)) return;
    if (!event.detail.successful) fault = describeFault(event.detail.xhr);
    pending -= 1;
    if (!pending) finish();
  });
  document.addEventListener("visibilitychange", refresh);
  document.addEventListener("refresh", (event) => {
    if (event.target === document) refresh();   // the chat got an answer
  });
  timer = setTimeout(refresh, INTERVAL_MS);
})();
