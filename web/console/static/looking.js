// Looks at what changes, again and again: every part with `data-look` is fetched by htmx and replaced.
//
// Nothing grows: a part is of bounded size, is only replaced where it differs, and the next look is planned when the answers
// to the last have come. A page that nobody sees does not look, and one that gets no answer looks less and less often.
"use strict";

(() => {
  const EVERY_MS = 1500, RAREST_MS = 30000, LOGGED_OUT = "You are logged out";
  const parts = [...document.querySelectorAll("[data-look]")];
  const last = new WeakMap();   // part -> what it shows
  const silence = document.getElementById("silence");
  let timer = 0, pending = 0, pause_ms = EVERY_MS, fault = "", answered_at = new Date();
  if (!parts.length) return;

  function look() {
    clearTimeout(timer);
    timer = 0;
    if (document.hidden || pending) return;
    pending = parts.length;
    fault = "";
    for (const part of parts) htmx.trigger(part, "look");
  }

  function conclude() {
    if (fault) {
      pause_ms = Math.min(2 * pause_ms, RAREST_MS);
    } else {
      pause_ms = EVERY_MS;
      answered_at = new Date();
    }
    const remedy = fault === LOGGED_OUT ? " Reload this page to log in." : "";
    const told = fault && `${fault} since ${answered_at.toLocaleTimeString("en-GB")}.${remedy}`;
    if (silence.textContent !== told) silence.textContent = told;
    silence.hidden = !told;
    timer = setTimeout(look, pause_ms);
  }

  function faultOf(xhr) {
    if (!xhr.status) return "No answer from the server";
    if (xhr.status === 401) return LOGGED_OUT;
    if (xhr.status === 404) return "This pipeline is not in service";
    return xhr.status === 503 ? "The server runs, but the bus does not answer" : `The server answers with error ${xhr.status}`;
  }

  // Whoever is marking something in a part is not disturbed by the next look.
  function isMarked(part) {
    const marked = getSelection();
    return !marked.isCollapsed && part.contains(marked.anchorNode);
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr, isError } = event.detail;
    if (!parts.includes(target) || isError) return;
    if (last.get(target) === xhr.responseText || isMarked(target)) event.detail.shouldSwap = false;
    else last.set(target, xhr.responseText);
  });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (!parts.includes(event.detail.elt)) return;
    if (!event.detail.successful) fault = faultOf(event.detail.xhr);
    pending -= 1;
    if (!pending) conclude();
  });
  document.addEventListener("visibilitychange", look);
  document.addEventListener("look", (event) => {
    if (event.target === document) look();   // somebody knows that there is something to see
  });
  timer = setTimeout(look, EVERY_MS);
})();
