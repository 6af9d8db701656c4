import type {
  IAuthenticateGeneric,
  Icon,
  ICredentialTestRequest,
  ICredentialType,
  INodeProperties,
} from 'n8n-workflow';

/** The address of a server, a key and a pipeline. */
export class MemrelayApi implements ICredentialType {
  name = 'memrelayApi';

  displayName = 'Memrelay API';

  icon: Icon = { light: 'file:../icons/memrelay.svg', dark: 'file:../icons/memrelay.dark.svg' };

  documentationUrl = 'https://memrelay.example/integrations/n8n/';

  properties: INodeProperties[] = [
    {
      displayName: 'URL',
      name: 'url',
      type: 'string',
      default: 'http://127.0.0.1:8765',
      required: true,
      description: 'The address of the server, as n8n reaches it',
    },
    {
      displayName: 'Pipeline',
      name: 'pipeline',
      type: 'string',
      default: '',
      required: true,
      placeholder: '3f9c2a71',
      description: 'The UID of the pipeline, which "memrelay ls" prints',
    },
    {
      displayName: 'API Key',
      name: 'apiKey',
      type: 'string',
      typeOptions: { password: true },
      default: '',
      description: 'A key of "memrelay keys create". Empty for a server without keys.',
    },
  ];

  authenticate: IAuthenticateGeneric = {
    type: 'generic',
    properties: { headers: { Authorization: '=Bearer {{$credentials.apiKey}}' } },
  };

  test: ICredentialTestRequest = {
    request: {
      baseURL: '={{$credentials.url}}',
      url: '=/v1/pipelines/{{$credentials.pipeline}}/records',
      qs: { limit: 1 },
    },
  };
}
