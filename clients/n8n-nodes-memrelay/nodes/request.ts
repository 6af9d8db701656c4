import { createHash } from 'crypto';
import {
  NodeApiError,
  NodeOperationError,
  type IDataObject,
  type IExecuteFunctions,
  type IHookFunctions,
  type IHttpRequestMethods,
} from 'n8n-workflow';

/** A call of the API. `path` is below `/v1/pipelines/UID`. */
export interface Call {
  method: IHttpRequestMethods;
  path: string;
  qs?: IDataObject;
  body?: IDataObject;
}

interface Answer {
  statusCode: number;
  body: IDataObject | undefined;
}

/** An answer that is an error, as the server describes it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    title: string,
    readonly detail: string,
  ) {
    super(title);
  }
}

/**
 * Return the answer to a call. `idempotencyKey` makes a repeated change have one effect.
 * Throws Problem for an error of the server.
 */
export async function request(
  context: IExecuteFunctions | IHookFunctions,
  { method, path, qs, body }: Call,
  idempotencyKey = '',
): Promise<IDataObject> {
  const { url, pipeline } = await context.getCredentials('memrelayApi');
  const answer = (await context.helpers.httpRequestWithAuthentication.call(context, 'memrelayApi', {
    method,
    baseURL: String(url).replace(/\/$/, ''),
    url: `/v1/pipelines/${encodeURIComponent(String(pipeline))}${path}`,
    headers: idempotencyKey ? { 'Idempotency-Key': idempotencyKey } : {},
    ...(qs && { qs }),
    ...(body && { body }),
    json: true,
    returnFullResponse: true,
    ignoreHttpStatusErrors: true,
  })) as Answer;
  if (answer.statusCode < 400) return answer.body || {};
  const { title, detail, faults } = (answer.body ?? {}) as IDataObject;
  const texts = [detail, ...((faults as IDataObject[] | undefined) ?? []).map(describeFault)];
  throw new Problem(
    answer.statusCode,
    String(title ?? `The server answered ${answer.statusCode}`),
    texts.filter(Boolean).join('\n'),
  );
}

/** Return the error of n8n for one that a call, or the reading of its parameters, threw. */
export function asNodeError(
  context: IExecuteFunctions | IHookFunctions,
  error: unknown,
  itemIndex?: number,
): NodeApiError | NodeOperationError {
  if (error instanceof NodeOperationError) return error;
  if (!(error instanceof Problem)) {
    return new NodeApiError(context.getNode(), error as never, { itemIndex });
  }
  return new NodeApiError(
    context.getNode(),
    { message: error.message },
    {
      message: error.message,
      description: error.detail,
      httpCode: String(error.status),
      itemIndex,
    },
  );
}

/**
 * Return the idempotency key of a call of this node: the same for each try within an execution.
 * Two equal calls of one run for the same item have the same key.
 */
export function makeIdempotencyKey(
  context: IExecuteFunctions,
  call: Call,
  itemIndex: number,
): string {
  const run = context.getWorkflowDataProxy(itemIndex).$runIndex as number;
  const execution = [context.getInstanceId(), context.getExecutionId(), context.getNode().id];
  const parts = [...execution, run, itemIndex, call];
  return `n8n-${createHash('sha256').update(JSON.stringify(parts)).digest('hex')}`;
}

function describeFault({ pointer, rule, suggestion }: IDataObject): string {
  return `${pointer}: ${rule}${suggestion ? ` (${suggestion})` : ''}`;
}
