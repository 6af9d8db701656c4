import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Memrelay } from '../dist/nodes/Memrelay/Memrelay.node.js';
import { TestWorkflow } from './n8n.mjs';

const node = new Memrelay();

function run(resource, operation, parameters, settings) {
  return new TestWorkflow(node, { resource, operation, ...parameters }, settings).run();
}

test('a record is written, found and deleted', async () => {
  const options = { kind: 'note', tags: 'harbor, times', data: '{"gate": 3}', owner: 'ada' };
  const [made] = await run('record', 'create', { content: 'The harbor opens at six', options });
  assert.equal(made.content, 'The harbor opens at six');
  assert.deepEqual([made.kind, made.tags, made.owner], ['note', ['harbor', 'times'], 'ada']);

  const filter = '{"data.gate": {"gte": 3}}';
  const query = { query: 'harbor', limit: 5, options: { tags: 'times', filter } };
  const [found] = await run('record', 'search', query);
  assert.equal(found.guid, made.guid);
  assert.ok(found.score > 0);

  const deleted = await run('record', 'delete', { guid: made.guid });
  assert.deepEqual(deleted, [{ deleted: true }]);
  assert.deepEqual(await run('record', 'search', query), []);
});

test('each item of the input is written, with expressions', async () => {
  const items = [{ text: 'Green tea' }, { text: 'Black tea' }];
  const made = await run('record', 'create', { content: '={{ $json.text }}' }, { items });
  assert.deepEqual(made.map(({ content }) => content), ['Green tea', 'Black tea']);
});

test('a step that is tried again writes once', async () => {
  const workflow = new TestWorkflow(node, { content: 'Kiwis are green' });
  const [first] = await workflow.run();
  const [second] = await workflow.run();
  assert.equal(second.guid, first.guid);

  const [other] = await run('record', 'create', { content: 'Kiwis are green' });
  assert.notEqual(other.guid, first.guid);
});

test('facts are set, read and found in their scope', async () => {
  const ada = { scope: 'user', scopeId: 'ada' };
  const set = { key: 'drink', value: '={{ { hot: ["tea"] } }}', ...ada };
  const [written] = await run('fact', 'set', set);
  assert.equal(written.action, 'created');
  const [read] = await run('fact', 'get', { key: 'drink', ...ada });
  assert.deepEqual(read.value, { hot: ['tea'] });
  const found = await run('fact', 'search', { factQuery: 'tea', ...ada });
  assert.deepEqual(found.map(({ key }) => key), ['drink']);

  await assert.rejects(run('fact', 'get', { key: 'drink', scope: 'user', scopeId: 'bob' }));
});

test('a conversation keeps its messages in order', async () => {
  const message = [
    { role: 'user', content: 'I moved to Lisbon' },
    { role: 'assistant', content: 'Noted.' },
  ];
  const whose = { thread: 'chat-1', user: 'ada' };
  const [added] = await run('conversation', 'add', { ...whose, agent: 'guide', messages: { message } });
  assert.equal(added.added, 2);
  const turns = await run('conversation', 'getAll', whose);
  assert.deepEqual(turns.map(({ role, content }) => ({ role, content })), message);
  assert.deepEqual(turns.map(({ name }) => name), ['ada', 'guide']);

  const found = await run('record', 'search', { query: 'Lisbon', options: { kind: 'turn' } });
  assert.equal(found.length, 1);
});

test('an error has the detail of the server, and can be an item', async () => {
  const wrong = ['record', 'create', { content: 'x', options: { kind: 'memory.fact' } }];
  await assert.rejects(run(...wrong), (error) => {
    assert.equal(error.httpCode, '422');
    assert.match(error.description, /memory\.fact/);
    return true;
  });
  const [item] = await run(...wrong, { continueOnFail: true });
  assert.ok(item.error);

  const options = { filter: '{' };
  await assert.rejects(run('record', 'search', { query: 'x', options }), /Filter is not JSON/);
});

test('a wrong key is refused, also by the test of the credentials', async () => {
  const settings = { credentials: { apiKey: 'mr_wrong_key' } };
  await assert.rejects(run('record', 'search', { query: 'tea' }, settings), { httpCode: '401' });

  assert.equal(await new TestWorkflow(node, {}).testCredentials(), 200);
  assert.equal(await new TestWorkflow(node, {}, settings).testCredentials(), 401);
  const other = { credentials: { pipeline: 'other' } };
  assert.equal(await new TestWorkflow(node, {}, other).testCredentials(), 404);
});
