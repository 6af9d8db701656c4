// Replays dead letters: one (`data-replay="UID/ID"`), or all of a group in sequence (`data-group`, a query). A group
// stops at the first letter that fails again. `data-wait` is the time for one replay in seconds.
"use strict";

(() => {
  const { byId } = dom, { call, describe, root } = calls, box = byId("replaying"), main = byId("main");
  const progress = makeProgress(box), { show } = progress;
  const PAGE = 100, LIST = `${root}/v1/dead-letters`;
  const POLL_MS = 200, PATIENCE_MS = 10000, SHOW_MS = 500;
  let shownAt = 0;

  const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

  // Returns why a replay did not succeed, "" if it did. The letter of a successful replay is gone.
  async function replay(name, attempts, wait) {
    const answer = await call(`POST ${LIST}/${name}/replay?wait=${wait}`);
    if (answer.status === 404) return "";
    if (!answer.status) return "The server does not respond. The replay may still run.";
    if (!answer.ok) return describe(answer);
    for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(POLL_MS)) {
      const { status, body } = await call(`GET ${LIST}/${name}`);
      if (status === 404) return "";
      if (body?.attempts > attempts) return `Failed again: ${body.error.split("\n")[0]}`;
    }
    return "No response in time. The replay may still run.";
  }

  function refresh(isLast) {
    if (!isLast && Date.now() - shownAt < SHOW_MS) return;
    shownAt = Date.now();
    document.dispatchEvent(new Event("refresh"));
  }

  async function replayOne({ dataset: { replay: name, wait, then } }) {
    show("Replaying…");
    const { status, body } = await call(`GET ${LIST}/${name}`);
    const fault = status === 404 ? "" : await replay(name, body?.attempts ?? 0, wait);
    if (then && !fault) {
      sessionStorage.setItem("toast", JSON.stringify(["Replayed."]));
      return location.assign(then);
    }
    show(fault || "Replayed.");
    box.className = fault ? "warning" : "notice";
    return refresh(true);
  }

  async function replayGroup({ dataset: { group, wait } }) {
    let count = 0, cursor = "", total = 0;
    progress.start();
    do {
      const page = await call(`GET ${LIST}?${group}&limit=${PAGE}&cursor=${cursor}`);
      if (!page.ok) return show(describe(page));
      total ||= page.body.total;
      for (const { pipeline_uid: uid, id, attempts } of page.body.items) {
        progress.step(count, total);
        const name = `${uid}/${encodeURIComponent(id)}`, fault = progress.isStopped ? "" : await replay(name, attempts, wait);
        if (progress.isStopped || fault) {
          show(`Stopped after ${count} of ${total}. ${fault}`, fault && `${root}/dead-letters/${name}`);
          return refresh(true);
        }
        count += 1;
        refresh(false);
      }
      cursor = page.body.next_cursor;
    } while (cursor);
    show(`Replayed ${count} of ${total}.`);
    return refresh(true);
  }

  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-replay], [data-group]");
    if (!button || "busy" in main.dataset) return;
    main.dataset.busy = "";
    await (button.dataset.group ? replayGroup(button) : replayOne(button));
    delete main.dataset.busy;
  });
  document.addEventListener("click", ({ target }) => {
    if (target.closest("#drop")) byId("dropping").showModal();
    if (target.closest("#dropping [type=reset]")) target.closest("dialog").close();
  });
})();
