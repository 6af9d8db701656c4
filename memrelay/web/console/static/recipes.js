// Validates a recipe while the user types, runs it with an intent, and assembles a context from several recipes.
"use strict";

(() => {
  const { byId, make, makeTable } = dom, { call, describe } = calls, PAUSE_MS = 400;   // of typing before a check
  const form = byId("definition"), text = form.elements.definition, box = byId("validation");
  let timer = 0, latest = 0;

  // Returns the number of the line at which the value of a JSON pointer begins, by scanning the valid text.
  function lineOf(source, pointer) {
    const wanted = pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g, stack = [];
    let best = 0, depth = -1, match;
    const matches = () => stack.length <= wanted.length && stack.every(({ key }, at) => String(key) === wanted[at]);
    const note = (at) => { if (matches() && stack.length > depth) [best, depth] = [at, stack.length]; };
    note(0);
    while ((match = token.exec(source))) {
      const [word] = match, top = stack.at(-1);
      if (top && top.isObject && top.expectsKey && word[0] === '"') {
        [top.key, top.expectsKey] = [JSON.parse(word), false];
        note(match.index);
      } else if (word === ",") {
        if (top?.isObject) top.expectsKey = true;
        else if (top) top.key += 1;
      } else if (word === "}" || word === "]") stack.pop();
      else if (word !== ":") {
        if (top && !top.isObject) note(match.index);
        if (word === "{") stack.push({ isObject: true, expectsKey: true, key: null });
        if (word === "[") stack.push({ isObject: false, key: 0 });
      }
    }
    return source.slice(0, best).split("\n").length;
  }

  function parse(source) {
    try {
      return [JSON.parse(source), ""];
    } catch (error) {
      return [null, error.message];
    }
  }

  function show(title, faults, className) {
    const rows = faults.map(({ path, message, isWarning }) => make("li", [make("span", `Line ${lineOf(text.value, path)}`),
      make("span", [make("code", path || "/"), ` ${isWarning ? "warning: " : ""}${message}`])]));
    box.replaceChildren(make("p", title, className), ...(rows.length ? [make("ul", rows)] : []));
    text.ariaInvalid = className === "bad" ? "true" : null;
  }

  async function validate() {
    const turn = ++latest, [definition, fault] = parse(text.value);
    if (fault) return show(`Not valid JSON: ${fault}`, [], "bad");
    const answer = await call(form.dataset.validate, { definition });
    if (turn !== latest) return undefined;   // the user has typed meanwhile
    if (!answer.ok) return show(answer.status ? describe(answer) : "The server does not respond.", [], "bad");
    const { valid, errors, warnings } = answer.body, count = errors.length;
    const faults = [...errors, ...warnings.map((one) => ({ ...one, isWarning: true }))];
    return show(valid ? "Valid." : `${count} fault${count === 1 ? "" : "s"}.`, faults, valid ? "" : "bad");
  }

  text.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(validate, PAUSE_MS); });
  byId("validate").addEventListener("click", validate);

  const count = (value) => (Array.isArray(value) ? value.length : value === null || value === undefined ? 0 : 1);

  function showRun(place, run) {
    const steps = Object.entries(run.stepResults ?? {}).map(([alias, value]) => [alias, count(value), (run.timing.steps?.[alias] ?? 0).toFixed(2)]);
    const output = make("pre", run.formattedOutput || "No items.", "output");
    output.tabIndex = 0;
    place.replaceChildren(make("p", run.success ? `Finished in ${run.timing.totalMs.toFixed(1)} ms${run.exitedEarly ? ", ended early" : ""}.` : `Failed in ${run.error.alias}: ${run.error.message}`, run.success ? "" : "bad"),
      output, makeTable(["Step", "Items", "ms"], steps), ...(run.warnings ?? []).map((one) => make("p", `${one.alias}: ${one.message}`, "note")));
  }

  function showContext(place, { context, text: whole, trace, meta }, elements) {
    const budget = Number(elements.budget.value);
    const bar = make("meter", [], "budget"), output = make("pre", whole || "No items.", "output");
    [bar.min, bar.max, bar.value, output.tabIndex] = [0, budget, Math.min(meta.token_estimate, budget), 0];
    bar.ariaLabel = "Used budget";
    const rows = Object.entries(context).map(([section, items]) => [section, items.length, items.reduce((sum, one) => sum + one.tokens, 0)]);
    const failed = (trace.memory_calls ?? []).filter((one) => one.error);
    place.replaceChildren(make("p", `${meta.token_estimate} of ${budget} tokens, ${meta.total_items} item${meta.total_items === 1 ? "" : "s"}${meta.truncated ? ", truncated" : ""}.`),
      bar, makeTable(["Section", "Items", "Tokens"], rows), output,
      ...failed.map((one) => make("p", `${one.memory_id}: ${one.error.message ?? one.error}`, "bad")));
  }

  // Adds the fields that are no controls before acting.js sends a form, and shows the answer.
  function connect(id, place, makeBody, showAnswer) {
    const target = byId(id);
    target?.addEventListener("submit", () => { target.dataset.body = JSON.stringify(makeBody(target.elements)); });
    target?.addEventListener("acted", ({ detail }) => showAnswer(byId(place), detail, target.elements));
  }

  connect("run", "result", () => ({ definition: parse(text.value)[0] }), showRun);
  connect("assemble", "context", ({ budget, intent }) => ({
    scope_variables: {}, constraints: { max_tokens: Number(budget.value) }, ...(intent.value && { input: { text: intent.value } }),
  }), showContext);
})();
