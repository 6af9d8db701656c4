// What a node meets in n8n: parameters with defaults and expressions of the real n8n-workflow,
// credentials, requests with `fetch`, and a server for the webhooks of a trigger.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { MemrelayApi } from '../dist/credentials/MemrelayApi.credentials.js';

// The ES modules of n8n-workflow are made for bundlers.
const { createRunExecutionData, Workflow, WorkflowDataProxy } = createRequire(import.meta.url)(
  'n8n-workflow',
);

const CREDENTIALS = {
  url: process.env.MEMRELAY_URL,
  apiKey: process.env.MEMRELAY_KEY,
  pipeline: process.env.MEMRELAY_PIPELINE,
};
const NODE = 'node under test';
export const TYPE = 'n8n-nodes-memrelay.memrelay';
const INSTANCE = randomUUID();
let executions = 0;

/** A workflow of one node with these parameters, or one node of a whole `workflow`. */
export class TestWorkflow {
  constructor(type, parameters, settings = {}) {
    const { items = [{}], continueOnFail = false, workflow, name = NODE, results = {} } = settings;
    const node = { id: 'n1', name, type: TYPE, typeVersion: 1, position: [0, 0], parameters };
    const { nodes, connections } = workflow ?? { nodes: [node], connections: {} };
    const findType = (named) => (named === TYPE ? type : undefined);
    this.type = type;
    this.items = items.map((json) => ({ json }));
    this.continueOnFail = continueOnFail;
    this.credentials = { ...CREDENTIALS, ...settings.credentials };
    this.execution = String(++executions);
    this.runs = createRunExecutionData({ resultData: { runData: asRuns(results) } });
    this.workflow = new Workflow({
      id: 'w1',
      name: 'test',
      active: false,
      connections,
      nodeTypes: { getByNameAndVersion: findType, getByName: findType, getKnownTypes: () => ({}) },
      nodes,
    });
    this.node = this.workflow.nodes[name];
  }

  /** Run the node as a step, and return the JSON of its items. A second run is a retry. */
  async run() {
    const [items] = await this.type.execute.call(this.context());
    return items.map(({ json }) => json);
  }

  /** Return what n8n gives to a node. */
  context(more = {}) {
    const workflow = this.workflow;
    return {
      getNode: () => this.node,
      getWorkflow: () => workflow,
      getInstanceId: () => INSTANCE,
      getExecutionId: () => this.execution,
      getInputData: () => this.items,
      getCredentials: async () => this.credentials,
      continueOnFail: () => this.continueOnFail,
      getWorkflowStaticData: (type) => workflow.getStaticData(type, this.node),
      getWorkflowDataProxy: (i) =>
        new WorkflowDataProxy(
          ...[workflow, this.runs, 0, i, this.node.name, this.items, {}, 'manual', {}],
        ).getDataProxy(),
      getNodeParameter: (name, second, third) => {
        const [i, otherwise] = typeof second === 'number' ? [second, third] : [0, second];
        const parts = name.split('.');
        const value = parts.reduce((found, part) => found?.[part], this.node.parameters);
        return value === undefined ? otherwise : this.evaluate(value, i);
      },
      helpers: {
        httpRequestWithAuthentication: (_, options) => this.send(options),
      },
      ...more,
    };
  }

  /** Return a value whose expressions are evaluated. */
  evaluate(value, i, keys = {}) {
    const { expression } = this.workflow;
    const { name } = this.node;
    return expression.getParameterValue(value, this.runs, 0, i, name, this.items, 'manual', keys);
  }

  /** Return the status of the request by which n8n tests the credentials. */
  async testCredentials() {
    const { request } = new MemrelayApi().test;
    const options = this.evaluate(request, 0, { $credentials: this.credentials });
    return (await this.send({ method: 'GET', ...options })).statusCode;
  }

  /** Send a request with the credentials. */
  async send({ method, baseURL, url, qs = {}, body, headers = {} }) {
    const { properties } = new MemrelayApi().authenticate;
    const keys = { $credentials: this.credentials };
    const target = new URL(baseURL + url);
    for (const [name, value] of Object.entries(qs)) target.searchParams.set(name, value);
    const answer = await fetch(target, {
      method,
      headers: {
        ...headers,
        ...this.evaluate(properties.headers, 0, keys),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    return { statusCode: answer.status, body: text ? JSON.parse(text) : undefined };
  }
}

/** A trigger with a server that takes its webhooks. */
export class TestTrigger extends TestWorkflow {
  started = [];
  requests = [];
  #waiting = [];

  async listen() {
    this.port = await new Promise((resolve) => {
      this.server = createServer((request, response) => this.#take(request, response));
      this.server.listen(0, '127.0.0.1', () => resolve(this.server.address().port));
    });
  }

  close() {
    this.server.closeAllConnections();
    this.server.close();
  }

  /** Call `checkExists`, `create` or `delete` as n8n does for a workflow that is switched. */
  async lifecycle(name) {
    const url = `http://127.0.0.1:${this.port}/webhook/w1`;
    const context = this.context({ getNodeWebhookUrl: () => url });
    return await this.type.webhookMethods.default[name].call(context);
  }

  /** Give a request to the node, and return the status of its answer. */
  async receive(headers, rawBody) {
    let status = 200;
    const response = {
      status: (code) => ((status = code), response),
      send: () => response,
      end: () => response,
    };
    const context = this.context({
      getRequestObject: () => ({ headers, rawBody }),
      getResponseObject: () => response,
      getBodyData: () => JSON.parse(rawBody),
    });
    const { workflowData } = await this.type.webhook.call(context);
    if (workflowData) this.started.push(workflowData[0][0].json);
    this.requests.push({ headers, rawBody });
    this.#waiting.splice(0).forEach((wake) => wake());
    return status;
  }

  /** Return the first start of the workflow that passes a test, when there is one. */
  async find(passes) {
    for (;;) {
      const found = this.started.find(passes);
      if (found) return found;
      await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }

  async #take(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    response.writeHead(await this.receive(request.headers, Buffer.concat(parts))).end();
  }
}

/** Return the results of earlier nodes, by name, as n8n keeps them. */
function asRuns(results) {
  const asRun = (items) => {
    const main = [items.map((json) => ({ json }))];
    return [{ startTime: 0, executionIndex: 0, executionTime: 0, source: [], data: { main } }];
  };
  return Object.fromEntries(Object.entries(results).map(([name, items]) => [name, asRun(items)]));
}
