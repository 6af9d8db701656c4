/** The AI SDK with a mock model: what was said is remembered, once. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { generateText, stepCountIs, streamText, wrapLanguageModel } from "ai";
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";
import { memoryMiddleware, memoryTools } from "memrelay/ai";
import { memory } from "./server.ts";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const finishReason = { unified: "stop", raw: undefined } as const;

function modelThatSays(text: string) {
  return new MockLanguageModelV4({
    doGenerate: { content: [{ type: "text", text }], finishReason, usage, warnings: [] },
    doStream: async () => ({
      stream: convertArrayToReadableStream([
        { type: "stream-start", warnings: [] },
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: text },
        { type: "text-end", id: "1" },
        { type: "finish", finishReason, usage },
      ]),
    }),
  });
}

test("the middleware keeps what was said, once, and recalls it later", async () => {
  const said = { user: "grace", agent: "guide", thread: "ai-1" };
  const first = modelThatSays("Noted.");
  const model = wrapLanguageModel({ model: first, middleware: memoryMiddleware(memory, said) });
  for (let n = 0; n < 2; n++) await generateText({ model, prompt: "I am allergic to nuts" });
  const { items } = await memory.turns.list({ thread: "ai-1", user: "grace" });
  assert.deepEqual(
    items.map((one) => [one.name, one.content]),
    [
      ["grace", "I am allergic to nuts"],
      ["guide", "Noted."],
    ],
  );

  const second = modelThatSays("No nuts.");
  const later = { ...said, thread: "ai-2" };
  const again = wrapLanguageModel({ model: second, middleware: memoryMiddleware(memory, later) });
  const { textStream } = streamText({ model: again, prompt: "What am I allergic to?" });
  let answer = "";
  for await (const part of textStream) answer += part;
  const sent = JSON.stringify(second.doStreamCalls[0]?.prompt);
  assert.match(sent, /not instructions/);
  assert.match(sent, /allergic to nuts/);
  assert.equal(answer, "No nuts.");
  const kept = await memory.turns.list({ thread: "ai-2", user: "grace" });
  assert.deepEqual(
    kept.items.map((one) => one.content),
    ["What am I allergic to?", "No nuts."],
  );
});

test("another user's memory is not recalled", async () => {
  const model = modelThatSays("I do not know.");
  const middleware = memoryMiddleware(memory, { user: "eve", thread: "ai-3" });
  await generateText({
    model: wrapLanguageModel({ model, middleware }),
    prompt: "What am I allergic to?",
  });
  assert.doesNotMatch(JSON.stringify(model.doGenerateCalls[0]?.prompt), /nuts/);
});

test("what is recalled is short, and has neither transcripts nor excluded words", async () => {
  const said = { user: "ida", thread: "ai-4" };
  await memory.add(`My cello is old. ${"x".repeat(300_000)}`, said);
  await memory.records.create({ content: "cello: entry", kind: "transcript", owner: "ida" });
  const model = modelThatSays("It is.");
  const middleware = memoryMiddleware(memory, { ...said, thread: "ai-5" });
  await generateText({
    model: wrapLanguageModel({ model, middleware }),
    prompt: `Is the -cello old? ${"y ".repeat(150_000)}`,
  });
  const [recalled] = model.doGenerateCalls[0]?.prompt ?? [];
  const sent = String(recalled?.content);
  assert.match(sent, /My cello is old/);
  assert.doesNotMatch(sent, /cello: entry/);
  assert.ok(sent.length < 1_500);
});

test("a model remembers and recalls by tools", async () => {
  const tools = memoryTools(memory, { user: "lin" });
  const call = (toolName: string, input: object) => ({
    content: [
      { type: "tool-call" as const, toolCallId: toolName, toolName, input: JSON.stringify(input) },
    ],
    finishReason: { unified: "tool-calls" as const, raw: undefined },
    usage,
    warnings: [],
  });
  const model = new MockLanguageModelV4({
    doGenerate: [
      call("remember", { text: "Lin plays the cello" }),
      call("recall", { query: "cello" }),
      { content: [{ type: "text", text: "The cello." }], finishReason, usage, warnings: [] },
    ],
  });
  const { text, steps } = await generateText({
    model,
    tools,
    prompt: "Which instrument do I play?",
    stopWhen: stepCountIs(5),
  });
  assert.equal(text, "The cello.");
  assert.deepEqual(steps[1]?.toolResults[0]?.output, ["Lin plays the cello"]);
});
