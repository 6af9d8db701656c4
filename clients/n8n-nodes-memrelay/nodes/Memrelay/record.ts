import type { IDataObject, IExecuteFunctions, INodeProperties } from 'n8n-workflow';
import { given, parseObject, split } from '../parameters';
import type { Operation } from './operation';

const shown = (...operation: string[]) => ({ show: { resource: ['record'], operation } });

export const recordProperties: INodeProperties[] = [
  {
    displayName: 'Operation',
    name: 'operation',
    type: 'options',
    noDataExpression: true,
    displayOptions: { show: { resource: ['record'] } },
    options: [
      { name: 'Create', value: 'create', action: 'Create a record' },
      { name: 'Delete', value: 'delete', action: 'Delete a record' },
      { name: 'Search', value: 'search', action: 'Search records' },
    ],
    default: 'create',
  },
  {
    displayName: 'Content',
    name: 'content',
    type: 'string',
    typeOptions: { rows: 3 },
    displayOptions: shown('create'),
    default: '',
    required: true,
    description: 'The text to keep',
  },
  {
    displayName: 'Query',
    name: 'query',
    type: 'string',
    displayOptions: shown('search'),
    default: '',
    required: true,
    description: 'The text to search for',
  },
  {
    displayName: 'Limit',
    name: 'limit',
    type: 'number',
    typeOptions: { minValue: 1 },
    displayOptions: shown('search'),
    default: 50,
    description: 'Max number of results to return',
  },
  {
    displayName: 'Record ID',
    name: 'guid',
    type: 'string',
    displayOptions: shown('delete'),
    default: '',
    required: true,
    description: 'The guid of the record',
  },
  {
    displayName: 'Options',
    name: 'options',
    type: 'collection',
    placeholder: 'Add Option',
    displayOptions: shown('create', 'search', 'delete'),
    default: {},
    options: [
      {
        displayName: 'Data',
        name: 'data',
        type: 'json',
        displayOptions: { show: { '/operation': ['create'] } },
        default: '{}',
        description: 'A JSON object of at most 64 KiB. Filters can use it.',
      },
      {
        displayName: 'Expires At',
        name: 'expiresAt',
        type: 'dateTime',
        displayOptions: { show: { '/operation': ['create'] } },
        default: '',
        description: 'When the record expires, in UTC unless the time has a zone. By default never.',
      },
      {
        displayName: 'Filter',
        name: 'filter',
        type: 'json',
        displayOptions: { show: { '/operation': ['search'] } },
        default: '{}',
        description:
          'Only records that pass this filter, such as {"data.price": {"gte": 3}} or {"owner": {"eq": "ada"}}',
      },
      {
        displayName: 'Kind',
        name: 'kind',
        type: 'string',
        displayOptions: { show: { '/operation': ['create', 'search'] } },
        default: '',
        description: 'The kind of record, such as note. Turns of conversations have the kind turn.',
      },
      {
        displayName: 'Mode',
        name: 'mode',
        type: 'options',
        displayOptions: { show: { '/operation': ['search'] } },
        options: [
          { name: 'All Words', value: 'fts' },
          { name: 'Any Words, Context and Meaning', value: 'hybrid' },
          { name: 'Meaning', value: 'semantic' },
        ],
        default: 'hybrid',
        description: 'How to search. By default the server decides by what the store has.',
      },
      {
        displayName: 'Owner',
        name: 'owner',
        type: 'string',
        displayOptions: { show: { '/operation': ['create'] } },
        default: '',
        description: 'The person or program that the record belongs to',
      },
      {
        displayName: 'Store',
        name: 'store',
        type: 'string',
        default: '',
        description: 'A store of the pipeline. By default the first one of the bundle.',
      },
      {
        displayName: 'Tags',
        name: 'tags',
        type: 'string',
        displayOptions: { show: { '/operation': ['create', 'search'] } },
        default: '',
        description: 'Tags, separated by commas',
      },
      {
        displayName: 'Use Query Syntax',
        name: 'syntax',
        type: 'boolean',
        displayOptions: { show: { '/operation': ['search'] } },
        default: false,
        description: 'Whether quotes, minus signs and filters such as before: in the query are operators',
      },
    ],
  },
];

export const recordOperations: Record<string, Operation> = {
  create: {
    changes: true,
    makeCall: (context, i) => {
      const { store, tags, data, expiresAt, kind, owner } = options(context, i);
      return {
        method: 'POST',
        path: '/records',
        qs: given({ store }),
        body: {
          content: context.getNodeParameter('content', i),
          ...given({ kind, owner, tags: split(tags), expires_at: expiresAt }),
          ...given({ data: parseObject(context, 'Data', data, i) }),
        },
      };
    },
  },
  search: {
    changes: false,
    makeCall: (context, i) => {
      const { store, tags, filter, kind, mode, syntax } = options(context, i);
      return {
        method: 'POST',
        path: '/records/search',
        qs: given({ store }),
        body: {
          query: context.getNodeParameter('query', i),
          limit: context.getNodeParameter('limit', i),
          plain: !syntax,
          ...given({ kind, mode, tags: split(tags) }),
          ...given({ filter: parseObject(context, 'Filter', filter, i) }),
        },
      };
    },
    read: ({ items }) =>
      (items as IDataObject[]).map(({ record, score }) => ({ ...(record as IDataObject), score })),
  },
  delete: {
    changes: true,
    makeCall: (context, i) => {
      const guid = context.getNodeParameter('guid', i) as string;
      const qs = given({ store: options(context, i).store });
      return { method: 'DELETE', path: `/records/${encodeURIComponent(guid)}`, qs };
    },
    read: () => [{ deleted: true }],
  },
};

function options(context: IExecuteFunctions, i: number): IDataObject {
  return context.getNodeParameter('options', i, {}) as IDataObject;
}
