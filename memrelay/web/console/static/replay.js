// Counts kept inputs, and runs them again page by page. After a stop or a fault it continues where it was.
"use strict";

(() => {
  const form = dom.byId("replay"), box = dom.byId("replaying"), PAGE = 100;
  if (!form) return;
  const progress = makeProgress(box);
  let isBusy = false;

  const readTime = (name) => (form.elements[name].value ? new Date(form.elements[name].value).toISOString() : "");
  // A period without an end ends now for all pages of the count and the replay.
  const readBody = () => ({
    since: readTime("since"), until: readTime("until") || new Date().toISOString(), agent: form.elements.agent.value,
    filter: form.elements.filter.value, as_new: form.elements.as_new.checked, limit: PAGE,
  });
  const name = (count) => `${count} input${count === 1 ? "" : "s"}`;

  // Sends the pages from `from` on, {count, cursor, key}. Returns where it ended, with a fault if there is one.
  async function send(body, from, showCount) {
    let { count, cursor, key } = from;
    do {
      const position = { ...(cursor ? { cursor } : {}), ...(key ? { key } : {}) };
      const answer = await calls.call(form.dataset.line, { ...body, ...position });
      if (!answer.ok) return { count, cursor, key, fault: calls.describe(answer) };
      key = body.dry_run ? "" : answer.body.key;
      count += answer.body.replayed;
      cursor = answer.body.next_cursor;
      showCount(count);
    } while (cursor && !progress.isStopped);
    return { count, cursor, key, fault: "" };
  }

  async function count(body) {
    const found = await send({ ...body, dry_run: true }, { count: 0 }, (number) => progress.show(`${name(number)} so far…`));
    if (found.fault) fail(found.fault);
    return found.fault ? null : found.count;
  }

  function fail(text) {
    progress.show(text);
    box.className = "warning";
  }

  async function run(body, from, total) {
    progress.start();
    progress.step(from.count, total);
    const end = await send(body, from, (number) => progress.step(number, total));
    if (!end.fault && !end.cursor) return progress.show(`Replayed ${name(end.count)}.`);
    fail(`Stopped after ${end.count} of ${name(total)}. ${end.fault}`);
    return box.append(" ", dom.makeButton("Continue", () => guard(() => run(body, end, total)), "quiet"));
  }

  async function guard(act) {
    if (isBusy) return;
    isBusy = true;
    await act();
    isBusy = false;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = readBody(), isRun = event.submitter?.name !== "dry";
    guard(async () => {
      progress.start();
      const total = await count(body);
      if (total === null) return null;
      return isRun && total ? run(body, { count: 0, key: crypto.randomUUID() }, total) : progress.show(`${name(total)}.`);
    });
  });
})();
