import type { Problem } from "./types.js";

/** The server refused a call, or did not answer. */
export class MemrelayError extends Error {
  override readonly name = "MemrelayError";

  constructor(
    message: string,
    /** The HTTP status, 0 without an answer. */
    readonly status: number,
    /** The body of the answer: `detail`, and `faults` with all invalid fields. */
    readonly problem: Problem = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}
