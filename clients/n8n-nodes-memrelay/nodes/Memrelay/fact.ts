import type { IDataObject, IExecuteFunctions, INodeProperties } from 'n8n-workflow';
import { given } from '../parameters';
import type { Operation } from './operation';

const shown = (...operation: string[]) => ({ show: { resource: ['fact'], operation } });
const ID_FIELDS: Record<string, string> = {
  agent: 'agent_id',
  session: 'session_id',
  user: 'user_id',
};

export const factProperties: INodeProperties[] = [
  {
    displayName: 'Operation',
    name: 'operation',
    type: 'options',
    noDataExpression: true,
    displayOptions: { show: { resource: ['fact'] } },
    options: [
      { name: 'Get', value: 'get', action: 'Get a fact' },
      { name: 'Search', value: 'search', action: 'Search facts' },
      { name: 'Set', value: 'set', action: 'Set a fact' },
    ],
    default: 'set',
  },
  {
    displayName: 'Key',
    name: 'key',
    type: 'string',
    displayOptions: shown('get', 'set'),
    default: '',
    required: true,
    placeholder: 'favorite_drink',
    description: 'The name of the fact, unique within its scope',
  },
  {
    displayName: 'Value',
    name: 'value',
    type: 'string',
    displayOptions: shown('set'),
    default: '',
    required: true,
    description: 'A text. An expression may give a number, a list or an object, which is kept as such.',
  },
  {
    displayName: 'Query',
    name: 'factQuery',
    type: 'string',
    displayOptions: shown('search'),
    default: '',
    required: true,
    description: 'Words in this order within a key or a value, or whole words in any order',
  },
  {
    displayName: 'Limit',
    name: 'factLimit',
    type: 'number',
    typeOptions: { minValue: 1 },
    displayOptions: shown('search'),
    default: 50,
    description: 'Max number of results to return',
  },
  {
    displayName: 'Scope',
    name: 'scope',
    type: 'options',
    displayOptions: shown('get', 'search', 'set'),
    options: [
      { name: 'Agent', value: 'agent' },
      { name: 'Global', value: 'global' },
      { name: 'Session', value: 'session' },
      { name: 'User', value: 'user' },
    ],
    default: 'global',
    description: 'Who sees the fact. Get and Search see global facts too.',
  },
  {
    displayName: 'Scope ID',
    name: 'scopeId',
    type: 'string',
    displayOptions: {
      show: {
        resource: ['fact'],
        operation: ['get', 'search', 'set'],
        scope: ['agent', 'session', 'user'],
      },
    },
    default: '',
    required: true,
    description: 'The ID of the agent, session or user',
  },
];

export const factOperations: Record<string, Operation> = {
  set: {
    changes: true,
    makeCall: (context, i) => ({
      method: 'POST',
      path: `/facts/${keyOf(context, i)}/set`,
      body: {
        value: context.getNodeParameter('value', i),
        scope: context.getNodeParameter('scope', i),
        ...ids(context, i),
      },
    }),
  },
  get: {
    changes: false,
    makeCall: (context, i) => ({
      method: 'GET',
      path: `/facts/${keyOf(context, i)}`,
      qs: ids(context, i),
    }),
  },
  search: {
    changes: false,
    makeCall: (context, i) => ({
      method: 'POST',
      path: '/facts/search',
      body: {
        query: context.getNodeParameter('factQuery', i),
        limit: context.getNodeParameter('factLimit', i),
        ...ids(context, i),
      },
    }),
    read: ({ items }) => items as IDataObject[],
  },
};

function keyOf(context: IExecuteFunctions, i: number): string {
  return encodeURIComponent(context.getNodeParameter('key', i) as string);
}

function ids(context: IExecuteFunctions, i: number): IDataObject {
  const field = ID_FIELDS[context.getNodeParameter('scope', i) as string];
  return field ? given({ [field]: context.getNodeParameter('scopeId', i, '') }) : {};
}
