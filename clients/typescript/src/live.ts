import { MemrelayError } from "./errors.js";

/** A message of a swarm, as it is published. */
export interface LiveMessage {
  /** Continues after this message: `listen({ after: cursor })`. */
  cursor: string;
  /** The id of the message. */
  mid: string;
  /** The envelope: `from`, `id`, and `args` with the parts. */
  message: { from: string; id: string; args: Record<string, unknown>[] };
}

/** Options of `listen`. */
export interface ListenOptions {
  swarm?: string;
  /** The cursor of the last message that was seen; `0-0` begins at the oldest one. */
  after?: string;
  signal?: AbortSignal;
}

type Ending = { error?: MemrelayError };

/**
 * Yield the messages of a WebSocket until the signal ends it. Throws MemrelayError if the server
 * ends the stream; listen again after the last cursor.
 */
export async function* readSocket(
  url: string,
  headers: Record<string, string>,
  signal?: AbortSignal,
): AsyncGenerator<LiveMessage> {
  if (typeof WebSocket === "undefined") {
    throw new TypeError("there is no global WebSocket; use Node 22 or newer, or set one");
  }
  const waiting: LiveMessage[] = [];
  let wake: () => void = () => {};
  let ending: Ending | undefined;
  const end = (one: Ending) => {
    ending ??= one;
    wake();
  };
  // Browsers send the session's cookie and take no headers. Node, Deno and Bun take them.
  const options = Object.keys(headers).length ? ({ headers } as unknown as string[]) : [];
  const socket = new WebSocket(url, options);
  socket.onmessage = ({ data }) => {
    waiting.push(JSON.parse(String(data)) as LiveMessage);
    wake();
  };
  socket.onerror = () => end({ error: new MemrelayError(`${url} refused to listen`, 0) });
  socket.onclose = ({ code, reason }) =>
    end({ error: new MemrelayError(reason || `the server ended the stream (${code})`, 0) });
  const stop = () => end({});
  signal?.addEventListener("abort", stop, { once: true });
  if (signal?.aborted) stop();
  try {
    for (;;) {
      let one = waiting.shift();
      while (one !== undefined) {
        yield one;
        one = waiting.shift();
      }
      if (ending) break;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    if (ending.error) throw ending.error;
  } finally {
    signal?.removeEventListener("abort", stop);
    socket.close();
  }
}
