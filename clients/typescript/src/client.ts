import createClient, { type Client } from "openapi-fetch";
import { MemrelayError } from "./errors.js";
import type { paths } from "./openapi.js";
import { ROUTES } from "./routes.js";
import type { CallOptions, Nouns, Problem } from "./types.js";

/** Options of a client. */
export interface MemrelayOptions {
  /** The address of the server, such as `http://127.0.0.1:8765`. */
  url: string;
  /** A key of `memrelay keys create`. A server on loopback may need none. */
  key?: string;
  /** The uid of the pipeline, by default the only one of the server. */
  pipeline?: string;
  /** How often a call is repeated after 429, 503 or a broken connection. */
  retries?: number;
  /** Another `fetch`. */
  fetch?: typeof globalThis.fetch;
}

type Fields = Record<string, unknown>;
interface Route {
  method: string;
  path: string;
  changes: boolean;
  hasStoreInBody: boolean;
}

const PIPELINE = "/v1/pipelines/{uid}";
const METHODS: Record<string, string> = {
  create: "POST",
  list: "GET",
  get: "GET",
  put: "PUT",
  update: "PATCH",
  delete: "DELETE",
};
const RETRIED = new Set([429, 503]);
// Milliseconds: the first pause, the longest one, and how long a read of the past may take.
const FIRST_PAUSE = 200;
const LONGEST_PAUSE = 30_000;
const PAST_WAIT = 300_000;

/** Return the route of an operation. Throws TypeError for an unknown one. */
export function findRoute(noun: string, verb: string): Route {
  const found = ROUTES[noun]?.[verb];
  if (found === undefined) throw new TypeError(`there is no operation ${noun}.${verb}`);
  const [, marks = "", rest = ""] = /^([!=]*)(.*)$/.exec(found) ?? [];
  const changes = marks.includes("!");
  const hasStoreInBody = marks.includes("=");
  const space = rest.indexOf(" ");
  if (space > 0) {
    const path = rest.slice(space + 1);
    const method = rest.slice(0, space);
    return {
      method,
      path: path.startsWith("/v1") ? path : PIPELINE + path,
      changes,
      hasStoreInBody,
    };
  }
  const method = METHODS[verb] ?? (rest && !changes ? "GET" : "POST");
  const path = `${PIPELINE}/${noun}${rest && `/{${rest}}`}${verb in METHODS ? "" : `/${verb}`}`;
  return { method, path, changes, hasStoreInBody };
}

/** Sends calls, and repeats those that may be repeated. */
export class Caller {
  readonly api: Client<paths>;
  #only: Promise<string> | undefined;

  constructor(private readonly options: MemrelayOptions) {
    this.api = createClient<paths>({
      baseUrl: options.url.replace(/\/+$/, ""),
      headers: options.key ? { Authorization: `Bearer ${options.key}` } : {},
      querySerializer: { array: { style: "form", explode: true } },
      ...(options.fetch && { fetch: options.fetch as (request: Request) => Promise<Response> }),
    });
  }

  /** Return the output of an operation. Throws MemrelayError. */
  async call(noun: string, verb: string, input: Fields = {}, options: CallOptions = {}) {
    const route = findRoute(noun, verb);
    const needsPipeline = route.path.includes("{uid}") && !("uid" in input);
    const uid = needsPipeline ? (options.pipeline ?? (await this.findPipeline())) : "";
    const request = this.build(route, { uid, ...input }, options);
    const isPast = input["as_of"] !== undefined;
    const since = Date.now();
    for (let attempt = 0; ; attempt++) {
      const answer = await this.send(route, request, options.signal);
      const waits = isPast && answer.status === 202 && Date.now() - since < PAST_WAIT;
      if (!waits && answer.status >= 200 && answer.status < 300) return answer.data;
      const mayRepeat = attempt < (this.options.retries ?? 4);
      if (!waits && !(mayRepeat && (answer.status === 0 || RETRIED.has(answer.status)))) {
        const detail = answer.problem.detail ?? `${noun}.${verb} failed with ${answer.status}`;
        throw new MemrelayError(detail, answer.status, answer.problem, { cause: answer.cause });
      }
      await sleep(answer.retryAfter ?? pauseAfter(attempt), options.signal);
    }
  }

  /** Return the pipeline of the client. Throws TypeError if the server has several. */
  async findPipeline(): Promise<string> {
    if (this.options.pipeline) return this.options.pipeline;
    this.#only ??= this.findOnlyPipeline();
    try {
      return await this.#only;
    } catch (error) {
      this.#only = undefined;
      throw error;
    }
  }

  private async findOnlyPipeline(): Promise<string> {
    const { items } = (await this.call("pipelines", "list_all")) as {
      items: { pipeline_uid: string }[];
    };
    const [only, ...others] = items;
    if (only && !others.length) return only.pipeline_uid;
    throw new TypeError(
      `${this.options.url} has ${items.length} pipelines; name one: new Memrelay({ url, pipeline })`,
    );
  }

  private build(route: Route, input: Fields, options: CallOptions) {
    const path: Fields = {};
    const query: Fields = {};
    const body: Fields = {};
    const hasBody = route.method !== "GET" && route.method !== "DELETE";
    for (const [name, value] of Object.entries(input)) {
      if (value === undefined || (name === "uid" && value === "")) continue;
      const isSelector = name === "as_of" || (name === "store" && !route.hasStoreInBody);
      const inQuery = !hasBody || isSelector || (name === "wait" && route.path.includes("swarms"));
      if (route.path.includes(`{${name}}`)) path[name] = value;
      else if (inQuery) query[name] = isObject(value) ? JSON.stringify(value) : value;
      else body[name] = value;
    }
    const headers: Record<string, string> = {};
    if (route.changes) headers["Idempotency-Key"] = options.idempotencyKey ?? crypto.randomUUID();
    const versions = options.ifVersion === undefined ? [] : [options.ifVersion].flat();
    if (versions.length) headers["If-Match"] = versions.map((one) => `"${one}"`).join(", ");
    return { params: { path, query }, headers, ...(hasBody && { body }) };
  }

  private async send(route: Route, request: object, signal?: AbortSignal) {
    try {
      const init = { ...request, parseAs: "text", ...(signal && { signal }) };
      // The paths are checked by the types of the methods.
      const { data, error, response } = await this.api.request(
        route.method.toLowerCase() as "get",
        route.path as "/v1/pipelines",
        init as never,
      );
      const problem = error as Problem | string | undefined;
      return {
        status: response.status,
        data: data ? (JSON.parse(data as unknown as string) as unknown) : undefined,
        problem: typeof problem === "string" ? { detail: problem } : (problem ?? {}),
        retryAfter: readRetryAfter(response),
      };
    } catch (cause) {
      signal?.throwIfAborted();
      const problem = { detail: `${this.options.url} did not answer: ${String(cause)}` };
      return { status: 0, data: undefined, problem, cause };
    }
  }
}

/** Return the operations of a caller, by noun and verb. */
export function makeNouns(caller: Caller): Nouns {
  const verbs = (noun: string) =>
    proxy(
      (verb) => (input?: Fields, options?: CallOptions) => caller.call(noun, verb, input, options),
      ROUTES[noun],
    );
  const made: Record<string, unknown> = {};
  for (const noun of Object.keys(ROUTES)) made[noun] = verbs(noun);
  return made as Nouns;
}

function proxy(make: (name: string) => unknown, known: Record<string, string> = {}): object {
  const made: Record<string, unknown> = {};
  for (const name of Object.keys(known)) made[name] = make(name);
  return made;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readRetryAfter(response: Response): number | undefined {
  const header = response.headers.get("Retry-After");
  const seconds = header === null ? Number.NaN : Number(header);
  return Number.isFinite(seconds) ? Math.min(seconds * 1000, LONGEST_PAUSE) : undefined;
}

function pauseAfter(attempt: number): number {
  return Math.min(FIRST_PAUSE * 2 ** attempt, LONGEST_PAUSE) * (1 + Math.random() / 4);
}

function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(done, ms);
    function done() {
      signal?.removeEventListener("abort", stop);
      resolve();
    }
    function stop() {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
}
