import {
  NodeConnectionTypes,
  type IDataObject,
  type IExecuteFunctions,
  type INodeExecutionData,
  type INodeType,
  type INodeTypeDescription,
} from 'n8n-workflow';
import { asNodeError, makeIdempotencyKey, request } from '../request';
import { conversationOperations, conversationProperties } from './conversation';
import { factOperations, factProperties } from './fact';
import type { Operation } from './operation';
import { recordOperations, recordProperties } from './record';

const OPERATIONS: Record<string, Record<string, Operation>> = {
  conversation: conversationOperations,
  fact: factOperations,
  record: recordOperations,
};

/** Writes, searches and reads the memory of a pipeline. */
export class Memrelay implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Memrelay',
    name: 'memrelay',
    icon: { light: 'file:../../icons/memrelay.svg', dark: 'file:../../icons/memrelay.dark.svg' },
    group: ['transform'],
    version: 1,
    subtitle: '={{$parameter["operation"] + ": " + $parameter["resource"]}}',
    description: 'Write and search the memory of a Memrelay server',
    defaults: { name: 'Memrelay' },
    usableAsTool: true,
    inputs: [NodeConnectionTypes.Main],
    outputs: [NodeConnectionTypes.Main],
    credentials: [{ name: 'memrelayApi', required: true }],
    properties: [
      {
        displayName: 'Resource',
        name: 'resource',
        type: 'options',
        noDataExpression: true,
        options: [
          { name: 'Conversation', value: 'conversation' },
          { name: 'Fact', value: 'fact' },
          { name: 'Record', value: 'record' },
        ],
        default: 'record',
      },
      ...recordProperties,
      ...factProperties,
      ...conversationProperties,
    ],
  };

  async execute(this: IExecuteFunctions): Promise<INodeExecutionData[][]> {
    const results: INodeExecutionData[] = [];
    for (let i = 0; i < this.getInputData().length; i++) {
      try {
        for (const json of await run(this, i)) results.push({ json, pairedItem: { item: i } });
      } catch (error) {
        const fault = asNodeError(this, error, i);
        if (!this.continueOnFail()) throw fault;
        const { message, description } = fault;
        results.push({ json: { error: message, description }, pairedItem: { item: i } });
      }
    }
    return [results];
  }
}

async function run(context: IExecuteFunctions, i: number): Promise<IDataObject[]> {
  const resource = context.getNodeParameter('resource', i) as string;
  const operation = OPERATIONS[resource][context.getNodeParameter('operation', i) as string];
  const call = operation.makeCall(context, i);
  const key = operation.changes ? makeIdempotencyKey(context, call, i) : '';
  const answer = await request(context, call, key);
  return operation.read ? operation.read(answer) : [answer];
}
