import {
  NodeConnectionTypes,
  type IDataObject,
  type IHookFunctions,
  type INodeType,
  type INodeTypeDescription,
  type IWebhookFunctions,
  type IWebhookResponseData,
} from 'n8n-workflow';
import { given, parseObject } from '../parameters';
import { asNodeError, Problem, request } from '../request';
import { isGenuine } from './signature';

/** What a trigger keeps while its workflow is active. */
interface Registration {
  id?: string;
  secret?: string;
}

/** Starts a workflow when the memory of a pipeline changes, by an endpoint that it creates. */
export class MemrelayTrigger implements INodeType {
  description: INodeTypeDescription = {
    displayName: 'Memrelay Trigger',
    name: 'memrelayTrigger',
    icon: { light: 'file:../../icons/memrelay.svg', dark: 'file:../../icons/memrelay.dark.svg' },
    group: ['trigger'],
    version: 1,
    subtitle: '={{$parameter["events"].join(", ")}}',
    description: 'Starts the workflow when the memory of a Memrelay server changes',
    defaults: { name: 'Memrelay Trigger' },
    inputs: [],
    outputs: [NodeConnectionTypes.Main],
    credentials: [{ name: 'memrelayApi', required: true }],
    webhooks: [
      { name: 'default', httpMethod: 'POST', responseMode: 'onReceived', path: 'webhook' },
    ],
    properties: [
      {
        displayName: 'Events',
        name: 'events',
        type: 'multiOptions',
        options: [
          { name: 'All Events', value: '*' },
          { name: 'Dead Letter Added', value: 'dead_letter.added' },
          { name: 'Endpoint Disabled', value: 'endpoint.disabled' },
          { name: 'Entry Created', value: 'entry.created' },
          { name: 'Entry Deleted', value: 'entry.deleted' },
          { name: 'Entry Merged', value: 'entry.merged' },
          { name: 'Entry Updated', value: 'entry.updated' },
          { name: 'Episode Completed', value: 'episode.completed' },
          { name: 'Fact Contradicted', value: 'fact.contradicted' },
          { name: 'Fact Deleted', value: 'fact.deleted' },
          { name: 'Fact Set', value: 'fact.set' },
          { name: 'Item Deleted', value: 'item.deleted' },
          { name: 'Item Put', value: 'item.put' },
          { name: 'Pipeline Deployed', value: 'pipeline.deployed' },
          { name: 'Policy Verdict', value: 'policy.verdict' },
          { name: 'Record Created', value: 'record.created' },
          { name: 'Record Deleted', value: 'record.deleted' },
          { name: 'Record Expired', value: 'record.expired' },
          { name: 'Record Updated', value: 'record.updated' },
        ],
        default: ['record.created'],
        required: true,
        description:
          'The events that start the workflow. New facts and entries have events of their own. An expression may name further types, such as <code>graph.*</code>.',
      },
      {
        displayName: 'Filter',
        name: 'filter',
        type: 'json',
        default: '{}',
        description: 'Only events about records that pass this filter, such as {"kind": {"eq": "note"}}',
      },
    ],
  };

  webhookMethods = {
    default: {
      async checkExists(this: IHookFunctions): Promise<boolean> {
        const { id } = this.getWorkflowStaticData('node') as Registration;
        if (!id) return false;
        try {
          const endpoint = await request(this, { method: 'GET', path: `/endpoints/${id}` });
          if (endpoint.url !== this.getNodeWebhookUrl('default')) return false;
          // It was switched off while n8n did not answer. Its events that wait come now.
          if (!endpoint.active) {
            await request(this, { method: 'POST', path: `/endpoints/${id}/enable` });
          }
          return true;
        } catch (error) {
          if (isGone(error)) return false;
          throw asNodeError(this, error);
        }
      },

      async create(this: IHookFunctions): Promise<boolean> {
        try {
          const filter = parseObject(this, 'Filter', this.getNodeParameter('filter', '{}'));
          const created = await request(this, {
            method: 'POST',
            path: '/endpoints',
            body: {
              url: this.getNodeWebhookUrl('default'),
              events: this.getNodeParameter('events') as string[],
              description: `n8n: ${this.getWorkflow().name ?? ''}`,
              ...given({ filter }),
            },
          });
          const { id } = created.endpoint as IDataObject;
          Object.assign(this.getWorkflowStaticData('node'), { id, secret: created.secret });
          return true;
        } catch (error) {
          throw asNodeError(this, error);
        }
      },

      async delete(this: IHookFunctions): Promise<boolean> {
        const kept = this.getWorkflowStaticData('node');
        try {
          if (kept.id) await request(this, { method: 'DELETE', path: `/endpoints/${kept.id}` });
        } catch (error) {
          if (!isGone(error)) throw asNodeError(this, error);
        }
        delete kept.id;
        delete kept.secret;
        return true;
      },
    },
  };

  async webhook(this: IWebhookFunctions): Promise<IWebhookResponseData> {
    const { secret } = this.getWorkflowStaticData('node') as Registration;
    const { headers, rawBody } = this.getRequestObject() as unknown as {
      headers: Record<string, string | undefined>;
      rawBody?: Buffer;
    };
    if (!isGenuine(secret ?? '', headers, rawBody ?? Buffer.alloc(0), Date.now())) {
      this.getResponseObject().status(401).send('The signature is wrong or too old.').end();
      return { noWebhookResponse: true };
    }
    const json = { id: headers['webhook-id'], ...this.getBodyData() };
    return { workflowData: [[{ json }]] };
  }
}

function isGone(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}
