import type { IDataObject, INodeProperties } from 'n8n-workflow';
import { given } from '../parameters';
import type { Operation } from './operation';

const shown = (...operation: string[]) => ({ show: { resource: ['conversation'], operation } });

export const conversationProperties: INodeProperties[] = [
  {
    displayName: 'Operation',
    name: 'operation',
    type: 'options',
    noDataExpression: true,
    displayOptions: { show: { resource: ['conversation'] } },
    options: [
      { name: 'Add Messages', value: 'add', action: 'Add messages to a conversation' },
      { name: 'Get Many', value: 'getAll', action: 'Get many messages of a conversation' },
    ],
    default: 'add',
  },
  {
    displayName: 'Conversation',
    name: 'thread',
    type: 'string',
    displayOptions: shown('add', 'getAll'),
    default: '',
    placeholder: 'chat-1',
    description: 'The ID of the conversation. By default the user.',
  },
  {
    displayName: 'User',
    name: 'user',
    type: 'string',
    displayOptions: shown('add', 'getAll'),
    default: '',
    description: 'The person whose memory it is',
  },
  {
    displayName: 'Messages',
    name: 'messages',
    type: 'fixedCollection',
    typeOptions: { multipleValues: true },
    placeholder: 'Add Message',
    displayOptions: shown('add'),
    default: {},
    required: true,
    options: [
      {
        displayName: 'Message',
        name: 'message',
        values: [
          {
            displayName: 'Role',
            name: 'role',
            type: 'options',
            options: [
              { name: 'Assistant', value: 'assistant' },
              { name: 'System', value: 'system' },
              { name: 'Tool', value: 'tool' },
              { name: 'User', value: 'user' },
            ],
            default: 'user',
          },
          {
            displayName: 'Content',
            name: 'content',
            type: 'string',
            typeOptions: { rows: 2 },
            default: '',
          },
        ],
      },
    ],
  },
  {
    displayName: 'Agent',
    name: 'agent',
    type: 'string',
    displayOptions: shown('add'),
    default: '',
    description: 'The program that talks with the user',
  },
  {
    displayName: 'Limit',
    name: 'turnLimit',
    type: 'number',
    typeOptions: { minValue: 1 },
    displayOptions: shown('getAll'),
    default: 50,
    description: 'Max number of results to return',
  },
];

export const conversationOperations: Record<string, Operation> = {
  add: {
    changes: true,
    makeCall: (context, i) => ({
      method: 'POST',
      path: '/turns/add',
      body: {
        messages: context.getNodeParameter('messages.message', i, []),
        ...given({
          thread: context.getNodeParameter('thread', i),
          user: context.getNodeParameter('user', i),
          agent: context.getNodeParameter('agent', i),
        }),
      },
    }),
  },
  getAll: {
    changes: false,
    makeCall: (context, i) => ({
      method: 'GET',
      path: '/turns',
      qs: given({
        thread: context.getNodeParameter('thread', i),
        user: context.getNodeParameter('user', i),
        limit: context.getNodeParameter('turnLimit', i),
      }),
    }),
    read: ({ items }) => items as IDataObject[],
  },
};
