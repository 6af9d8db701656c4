// The chat: says what is written as JSON, by the same POST that everybody uses, and shows what comes of it.
"use strict";

(() => {
  const MOST_EXCHANGES = 20, MOST_RESULTS = 20, PATIENCE_MS = 10000;   // beyond the time that the server waits
  const LOGGED_OUT = "You are logged out, and nothing was said. Reload this page to log in.";
  const form = document.getElementById("say"), exchanges = document.getElementById("exchanges");
  if (!form) return;
  const box = exchanges.parentElement;
  const text = form.elements.text, from = form.elements.from;
  form.hidden = false;
  for (const node of document.querySelectorAll(".needs-js")) node.remove();

  async function ask(said, speaker) {
    const wait_s = Number(new URL(form.action).searchParams.get("wait"));
    const response = await fetch(form.action, {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ text: said, from: speaker }), signal: AbortSignal.timeout(1000 * wait_s + PATIENCE_MS),
    });
    if (response.status === 401) return [answers.make("p", LOGGED_OUT, "bad")];
    const told = await response.json();
    if (!response.ok) return [answers.make("p", told.detail ?? told.title ?? `Error ${response.status}`, "bad")];
    if (!told.results.length) return [answers.make("p", `No answer: ${told.reason}.`, "aside")];
    const shown = told.results.slice(0, MOST_RESULTS).map(answers.show);
    const more = told.results.length - shown.length;
    return more ? [...shown, answers.make("p", `… and ${more} more results; the log has them.`, "aside")] : shown;
  }

  function begin(said, speaker) {
    const exchange = answers.make("li"), waiting = answers.make("p", "…", "aside");
    exchange.append(answers.make("p", speaker, "who"), answers.make("p", answers.clipped(said), "what"), waiting);
    exchange.ariaBusy = "true";
    exchanges.append(exchange);
    box.tabIndex = 0;   // it can be scrolled by keys, once there is something
    while (exchanges.childElementCount > MOST_EXCHANGES) exchanges.firstElementChild.remove();
    box.scrollTop = box.scrollHeight;
    return (...nodes) => {
      waiting.replaceWith(...nodes);
      exchange.ariaBusy = "false";
      box.scrollTop = box.scrollHeight;
    };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = text.value.trim(), speaker = from.value.trim() || from.defaultValue;
    if (!said) return;
    text.value = "";
    const conclude = begin(said, speaker);
    try {
      conclude(...await ask(said, speaker));
    } catch {
      conclude(answers.make("p", "No answer from the server. What was said may have arrived: the log tells.", "bad"));
    }
    document.dispatchEvent(new Event("look"));
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("click", (event) => {
    const put = event.target.closest("[data-put]")?.dataset.put;
    if (put === undefined) return;
    text.value = put;
    text.focus();
  });
})();
