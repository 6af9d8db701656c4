/** Calls of many operations on a real server. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { isStopped, Memrelay, MemrelayError, type Output, pages } from "memrelay";
import { memory, pipeline } from "./server.ts";

test("records are written, read, changed, found, deleted and restored", async () => {
  const made = await memory.records.create({ content: "Ada prefers tea", tags: ["people"] });
  const { guid } = made;
  assert.equal((await memory.records.get({ guid })).content, "Ada prefers tea");
  await memory.records.append({ guid, content: "with milk" });
  const changed = await memory.records.update({ guid, kind: "note", data: { n: 1 } });
  assert.deepEqual([changed.kind, changed.data], ["note", { n: 1 }]);
  await assert.rejects(
    memory.records.update({ guid, kind: "x" }, { ifVersion: made.version }),
    (error: MemrelayError) => error.status === 412,
  );
  const found = await memory.records.search({ query: "tea", filter: { kind: { eq: "note" } } });
  assert.equal(found.items[0]?.record.guid, guid);
  const listed = await memory.records.list({ filter: { "data.n": { gte: 1 } }, limit: 5 });
  assert.deepEqual([listed.total, listed.items[0]?.guid], [1, guid]);
  assert.equal((await memory.records.history({ guid })).total, 3);
  assert.equal((await memory.records.origin({ guid })).items.length, 3);
  assert.equal(await memory.records.delete({ guid, reason: "done" }), undefined);
  await assert.rejects(memory.records.get({ guid }), (error: MemrelayError) => {
    return (
      error instanceof MemrelayError && error.status === 404 && /no record/.test(error.message)
    );
  });
  assert.equal((await memory.records.restore({ guid })).content, "Ada prefers tea\nwith milk");
  await memory.records.put({ items: [{ scope: "s", key: "k", data: { value: { n: 1 } } }] });
  assert.equal((await memory.records.find({ scope: "s", keys: ["k"] })).items.length, 1);
  assert.equal((await memory.records.scopes({})).total, 1);
  assert.equal((await memory.records.undo({ source: "nobody", dry_run: true })).deleted, 0);
});

test("pages follow cursors, turns and threads", async () => {
  for (let n = 0; n < 5; n++) await memory.records.create({ content: `page ${n}`, kind: "page" });
  const records: string[] = [];
  for await (const one of pages(memory.records.list, { kind: "page", limit: 2 })) {
    records.push(one.content);
  }
  assert.equal(records.length, 5);
  await memory.add(
    Array.from({ length: 5 }, (_, n) => ({ content: `turn ${n}` })),
    { thread: "paged" },
  );
  const turns = await Array.fromAsync(pages(memory.turns.list, { thread: "paged", limit: 2 }));
  assert.deepEqual(
    turns.map((one) => one.content).sort(),
    [0, 1, 2, 3, 4].map((n) => `turn ${n}`),
  );
});

test("messages of a conversation are kept once", async () => {
  const conversation = { user: "ada", agent: "bot", thread: "s1" };
  const messages = [
    { role: "user", content: "I moved to Lisbon", id: "1" },
    { role: "assistant", content: null, tool_calls: [{ id: "c" }], id: "2" },
  ];
  const first = await memory.add(messages, conversation);
  const again = await memory.add(messages, conversation);
  assert.deepEqual([first.added, again.added, again.skipped], [2, 0, 2]);
  const { items } = await memory.turns.list({ thread: "s1", user: "ada" });
  assert.deepEqual(
    items.map((one) => [one.name, one.item]),
    [
      ["ada", null],
      ["bot", messages[1]],
    ],
  );
  assert.equal((await memory.turns.threads({ user: "ada" })).items[0]?.thread, "s1");
  assert.equal((await memory.turns.pop({ thread: "s1", user: "ada" })).items[0]?.id, "2");
  assert.equal((await memory.turns.clear({ thread: "s1", user: "ada" })).deleted, 1);
  await memory.add("I like tea", { user: "ada" });
});

test("facts, procedures, episodes and users", async () => {
  await memory.facts.set({ key: "user:drink", value: "tea" });
  assert.equal((await memory.facts.get({ key: "user:drink" })).value, "tea");
  assert.equal((await memory.facts.recall({ key: "user:drink" })).value, "tea");
  assert.equal((await memory.facts.search({ query: "drink" })).items.length, 1);
  assert.equal((await memory.facts.list({})).items.length, 1);
  const episode = await memory.episodes.begin({ agent_id: "a1" });
  await memory.episodes.add({ id: episode.id, text: "brewed" });
  await memory.episodes.complete({ id: episode.id, success: true });
  await memory.episodes.rate({ id: episode.id, rating: 5 });
  assert.equal((await memory.episodes.list({})).items.length, 1);
  const known = await memory.users.identify({ channel: "telegram", channel_id: "c1" });
  assert.equal((await memory.users.get({ id: known.user.id })).id, known.user.id);
  assert.equal((await memory.users.list({})).items.length, 1);
});

test("named memories, items, key-value pairs, documents and graphs", async () => {
  const { id } = await memory.memories.create({ name: "people" });
  const entry = await memory.entries.create({ memory_id: id, content: "Ada lives in Lisbon" });
  assert.equal((await memory.entries.list({ memory_id: id })).items.length, 1);
  assert.ok(entry);
  assert.ok((await memory.knowledge.search({ query: "Lisbon" })).results.length);
  assert.ok((await memory.knowledge.context({ query: "Lisbon" })).text.includes("Lisbon"));
  await memory.items.put({ agent: "a1", store: "a1", key: "a/b?c#d%", value: { n: [1] } });
  const item = await memory.items.get({ agent: "a1", store: "a1", key: "a/b?c#d%" });
  assert.deepEqual(item.value, { n: [1] });
  assert.equal((await memory.items.list({ agent: "a1", store: "a1" })).keys.length, 1);
  assert.equal((await memory.stores.list({ agent: "a1" })).stores.length, 1);
  await memory.grants.set({ agent: "a1", store: "a1", grantee: "a2", level: "read" });
  assert.equal((await memory.grants.list({ agent: "a1" })).grants.length, 1);
  const kv = { instance: "app", namespace: "n" };
  await memory.kv.set({ ...kv, key: "theme", value: "dark", auto_create: true });
  assert.equal((await memory.kv.count({ instance: "app" })).count, 1);
  await memory.documents.put({ collection: "c", uri: "u/1", text: "green tea" });
  assert.equal((await memory.documents.search({ collection: "c", query: "tea" })).items.length, 1);
  assert.equal((await memory.documents.list({ collection: "c" })).items.length, 1);
  await memory.knowledge_graph.create_entities({
    entities: [{ name: "Ada", entity_type: "person", observations: ["likes tea"] }],
  });
  assert.equal((await memory.knowledge_graph.search({ query: "tea" })).entities.length, 1);
});

test("endpoints and their deliveries are managed", async () => {
  const made = await memory.endpoints.create({ url: "https://example.com/hook" });
  const id = made.endpoint.id;
  assert.equal((await memory.endpoints.list({})).items.length, 1);
  assert.equal((await memory.endpoints.get({ id })).id, id);
  assert.equal((await memory.deliveries.list({})).items.length, 0);
  await memory.endpoints.delete({ id });
});

test("the past is read with as_of", async () => {
  const made = await memory.records.create({ content: "before" });
  const then = new Date(Date.now() + 1).toISOString();
  await new Promise((resolve) => setTimeout(resolve, 20));
  await memory.records.update({ guid: made.guid, content: "after" });
  const past: Output<"records.get"> = await memory.records.get({ guid: made.guid, as_of: then });
  assert.equal(past.content, "before");
});

test("a key of the caller makes a repeated change one change", async () => {
  const options = { idempotencyKey: `tea-${Date.now()}` };
  const made = await Promise.all(
    [1, 2].map(() => memory.records.create({ content: "once" }, options)),
  );
  assert.equal(made[0]?.guid, made[1]?.guid);
  await assert.rejects(
    memory.records.create({ content: "twice" }, options),
    (error: MemrelayError) => error.status === 422,
  );
});

test("invalid input is reported with all faults", async () => {
  await assert.rejects(memory.records.create({ content: "" }), (error: MemrelayError) => {
    return error.status === 422 && JSON.stringify(error.problem).includes("content");
  });
  await assert.rejects(async () => memory.records.list({ limit: 100_000 }), { status: 422 });
  assert.equal(isStopped({ guid: "g", review: "pending" }), true);
  assert.equal(isStopped(await memory.records.list({}, { pipeline })), false);
});

test("pipelines are deployed and spoken to", async () => {
  const { items } = await memory.pipelines.list_all({});
  assert.ok(items.some((one) => one.pipeline_uid === pipeline));
  assert.equal((await memory.pipelines.show({ uid: pipeline })).pipeline_uid, pipeline);
  assert.equal((await memory.pipelines.versions({})).items.length, 1);
  const results = await memory.say("/write The meeting is at 3pm");
  assert.match(results[0] ?? "", /guid/);
  assert.deepEqual(await memory.say("hello"), []);
});

test("a swarm is followed live", { skip: typeof WebSocket === "undefined" }, async () => {
  const stop = new AbortController();
  const seen: string[] = [];
  const listening = (async () => {
    for await (const { message } of memory.listen({ after: "0-0", signal: stop.signal })) {
      seen.push(String(message.args[0]?.["text"]));
      if (seen.includes("live")) stop.abort();
    }
  })();
  await memory.say("live");
  await listening;
  assert.ok(seen.includes("live"));
});

test("a signal ends a call", async () => {
  await assert.rejects(memory.records.list({}, { signal: AbortSignal.abort() }), {
    name: "AbortError",
  });
});
