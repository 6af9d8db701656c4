/** Calls are repeated after 503 and broken connections, each change under one key. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { test } from "node:test";
import { Memrelay, type MemrelayError } from "memrelay";

type Step = (request: IncomingMessage, response: ServerResponse) => void;

async function serve(steps: Step[], use: (memory: Memrelay, keys: unknown[]) => Promise<void>) {
  const keys: unknown[] = [];
  const server: Server = createServer((request, response) => {
    keys.push(request.headers["idempotency-key"]);
    (steps.shift() ?? answer(500))(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  try {
    await use(new Memrelay({ url: `http://127.0.0.1:${port}`, pipeline: "p", retries: 2 }), keys);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

const answer =
  (status: number, body: object = {}, headers: Record<string, string> = {}): Step =>
  (_, response) =>
    response.writeHead(status, headers).end(JSON.stringify(body));
const broken: Step = (request) => request.socket.destroy();
const busy = answer(503, { detail: "busy" }, { "Retry-After": "0" });

test("a change is repeated with the same key", () =>
  serve([busy, broken, answer(201, { guid: "g" })], async (memory, keys) => {
    const made = await memory.records.create({ content: "tea" });
    assert.equal(made.guid, "g");
    assert.equal(new Set(keys).size, 1);
    assert.match(String(keys[0]), /^[0-9a-f-]{36}$/);
  }));

test("two changes have two keys, and reads have none", () =>
  serve([answer(201), answer(201), answer(200)], async (memory, keys) => {
    await memory.records.create({ content: "a" });
    await memory.records.create({ content: "a" });
    await memory.records.list({});
    assert.equal(new Set(keys.slice(0, 2)).size, 2);
    assert.equal(keys[2], undefined);
  }));

test("after the last attempt the error of the server is thrown", () =>
  serve([busy, busy, busy], async (memory) => {
    await assert.rejects(memory.records.list({}), (error: MemrelayError) => {
      return error.status === 503 && error.message === "busy";
    });
  }));

test("other errors are not repeated", () =>
  serve([answer(422, { detail: "no" }), answer(200)], async (memory, keys) => {
    await assert.rejects(memory.records.create({ content: "" }), { status: 422 });
    assert.equal(keys.length, 1);
  }));

test("a server that does not answer is named", async () => {
  const memory = new Memrelay({ url: "http://127.0.0.1:1", pipeline: "p", retries: 0 });
  await assert.rejects(memory.records.list({}), { status: 0, message: /127\.0\.0\.1:1/ });
});
