/** Calls are repeated after 503 and broken connections, each change under one key. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { test } from "node:test";
import { Memrelay, type MemrelayError } from "memrelay";

type Step = (request: IncomingMessage, response: ServerResponse) => void;

type Use = (memory: Memrelay, keys: unknown[], paths: unknown[]) => Promise<void>;

async function serve(steps: Step[], use: Use, pipeline = "p") {
  const keys: unknown[] = [];
  const paths: unknown[] = [];
  const server: Server = createServer((request, response) => {
    keys.push(request.headers["idempotency-key"]);
    paths.push(request.url);
    (steps.shift() ?? answer(500))(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  try {
    const url = `http://127.0.0.1:${port}`;
    await use(new Memrelay({ url, pipeline, retries: 2 }), keys, paths);
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

test("without a pipeline the only one of the server is used, and found once", () =>
  serve(
    [answer(200, { items: [{ pipeline_uid: "a b" }] }), answer(200), answer(200)],
    async (memory, _, paths) => {
      await memory.records.list({});
      await memory.records.list({});
      const list = "/v1/pipelines/a%20b/records";
      assert.deepEqual(paths, ["/v1/pipelines", list, list]);
    },
    "",
  ));

test("a server with several pipelines asks for one", () =>
  serve(
    [answer(200, { items: [{ pipeline_uid: "a" }, { pipeline_uid: "b" }] }), answer(200)],
    async (memory) => {
      await assert.rejects(memory.records.list({}), /2 pipelines; name one/);
      await memory.records.list({}, { pipeline: "b" });
    },
    "",
  ));
