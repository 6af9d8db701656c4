import { config } from '@n8n/node-cli/eslint';

export default [
  ...config,
  {
    // Memrelay has the license Apache-2.0. n8n asks for MIT only of nodes that it verifies.
    files: ['package.json'],
    rules: { 'n8n-nodes-base/community-package-json-license-not-default': 'off' },
  },
];
