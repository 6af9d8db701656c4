import type { Client } from "openapi-fetch";
import { Caller, type MemrelayOptions, makeNouns } from "./client.js";
import { type ListenOptions, type LiveMessage, readSocket } from "./live.js";
import type { components, paths } from "./openapi.js";
import type { CallOptions, Nouns, Output, Stopped } from "./types.js";

export type { MemrelayOptions } from "./client.js";
export { MemrelayError } from "./errors.js";
export type { ListenOptions, LiveMessage } from "./live.js";
export { pages } from "./pages.js";
export type { CallOptions, Input, Json, Output, Problem, Stopped } from "./types.js";
export { verifyWebhook, type WebhookEvent, WebhookVerificationError } from "./webhooks.js";

/** The types of the answers: `Schemas["RecordView"]`. */
export type Schemas = components["schemas"];

/** A message of a conversation. `id` makes a repeated call add it once. */
export interface ChatMessage {
  role?: string;
  content?: string | readonly unknown[] | null;
  name?: string;
  id?: string;
  [field: string]: unknown;
}

/** Whose conversation it is. */
export interface Conversation {
  /** The person whose memory it is. */
  user?: string;
  /** The program that talks with the person. */
  agent?: string;
  /** The conversation, by default the user. */
  thread?: string;
}

/** A message to a swarm, and how long to wait for its results. */
export interface SayOptions extends CallOptions {
  swarm?: string;
  sender?: string;
  waitSeconds?: number;
}

export interface Memrelay extends Nouns {}

/**
 * The memory of a pipeline. Each operation is a method, such as `memory.records.create`.
 *
 * Calls throw MemrelayError. Changes have an idempotency key, so that they are repeated safely.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: makeNouns adds the methods.
export class Memrelay {
  /** The typed client of all paths, without retries. */
  readonly api: Client<paths>;
  readonly #options: MemrelayOptions;
  readonly #caller: Caller;

  constructor(options: MemrelayOptions) {
    const caller = new Caller(options);
    this.#options = options;
    this.#caller = caller;
    this.api = caller.api;
    Object.assign(this, makeNouns(caller));
  }

  /** Add messages to a conversation, without a model. A message with a known `id` is skipped. */
  add(
    messages: string | ChatMessage | readonly ChatMessage[],
    conversation: Conversation = {},
    options?: CallOptions,
  ): Promise<Output<"turns.add">> {
    const list =
      typeof messages === "string" ? [{ role: "user", content: messages }] : [messages].flat();
    return this.turns.add(
      { messages: list as Record<string, unknown>[], ...conversation },
      options,
    );
  }

  /** Send a text to a swarm and return the texts of the results. */
  async say(text: string, options: SayOptions = {}): Promise<string[]> {
    const { swarm = "chat", sender = "User", waitSeconds = 10, ...rest } = options;
    const part = { username: sender, timestamp: Date.now(), text, type: "text/plain" };
    const message = { from: sender, id: "typescript", args: [part] };
    const input = { swarm, wait: waitSeconds, ...message };
    const { results } = await this.messages.send(input as never, rest);
    return (results as unknown as LiveMessage["message"][]).map(({ args }) =>
      String(args[0]?.["text"] ?? ""),
    );
  }

  /** Yield the messages of a swarm as they are published. Needs a global WebSocket (Node 22). */
  async *listen(options: ListenOptions = {}): AsyncGenerator<LiveMessage> {
    const { url, key } = this.#options;
    const pipeline = await this.#caller.findPipeline();
    const path = `/v1/pipelines/${encodeURIComponent(pipeline)}/swarms/${encodeURIComponent(options.swarm ?? "chat")}/messages`;
    const address = new URL(url.replace(/\/+$/, "") + path);
    address.protocol = address.protocol.replace("http", "ws");
    if (options.after) address.searchParams.set("after", options.after);
    yield* readSocket(
      String(address),
      key ? { Authorization: `Bearer ${key}` } : {},
      options.signal,
    );
  }
}

/** Return whether a policy of the store holds a write for review, or has dropped it. */
export function isStopped(output: unknown): output is Stopped {
  const fields = typeof output === "object" && output !== null ? output : {};
  return ("review" in fields && fields.review === "pending") || "dropped" in fields;
}
