// The chat: sends each message as JSON to the public API and shows the results.
"use strict";

(() => {
  const { byId, make } = dom, MAX_EXCHANGES = 20, MAX_RESULTS = 20, EXTRA_WAIT_MS = 10000;   // beyond the server's wait
  const LOGGED_OUT = "You are logged out, and the message was not sent. Reload this page to log in.";
  const form = byId("send"), exchanges = byId("exchanges");
  if (!form) return;
  const box = exchanges.parentElement;
  const text = form.elements.text, from = form.elements.from;
  form.hidden = false;
  for (const node of document.querySelectorAll(".needs-js")) node.remove();

  async function send(message, sender) {
    const wait_s = Number(new URL(form.action).searchParams.get("wait"));
    const signal = AbortSignal.timeout(1000 * wait_s + EXTRA_WAIT_MS);
    const { ok, status, body: answer } = await calls.call(`POST ${form.action}`, { text: message, from: sender }, {}, signal);
    if (!status) return [make("p", "No answer from the server. Check the log: the message may have arrived.", "bad")];
    if (status === 401) {
      text.value = message;
      return [make("p", LOGGED_OUT, "bad")];
    }
    if (!ok) return [make("p", calls.describe({ status, body: answer }), "bad")];
    if (!answer.results.length) return [make("p", answer.hint ?? toSentence(answer.reason), "note")];
    const shown = answer.results.slice(0, MAX_RESULTS).map(results.show);
    const more = answer.results.length - shown.length;
    return more ? [...shown, make("p", `… and ${more} more results; see the log.`, "note")] : shown;
  }

  function toSentence(reason) {
    return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${reason.endsWith(".") ? "" : "."}`;
  }

  // Adds an exchange and returns the function that shows its results.
  function addExchange(message, sender) {
    const waiting = make("p", "…", "note");
    const exchange = make("li", [make("p", sender, "sender"), make("p", results.clip(message), "text"), waiting]);
    exchange.ariaBusy = "true";
    exchanges.append(exchange);
    box.tabIndex = 0;   // makes the box scrollable by keyboard
    while (exchanges.childElementCount > MAX_EXCHANGES) exchanges.firstElementChild.remove();
    box.scrollTop = box.scrollHeight;
    return (...nodes) => {
      waiting.replaceWith(...nodes);
      exchange.ariaBusy = "false";
      box.scrollTop = box.scrollHeight;
    };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const message = text.value.trim(), sender = from.value.trim() || from.defaultValue;
    if (!message) return;
    text.value = "";
    const finish = addExchange(message, sender);
    finish(...await send(message, sender));
    if (!text.value) delete form.dataset.dirty;
    document.dispatchEvent(new Event("refresh"));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("click", (event) => {
    const word = event.target.closest("[data-insert]")?.dataset.insert;
    if (word === undefined) return;
    text.value = word;
    text.focus();
  });
})();
