import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Memrelay } from '../dist/nodes/Memrelay/Memrelay.node.js';
import { MemrelayTrigger } from '../dist/nodes/MemrelayTrigger/MemrelayTrigger.node.js';
import { TestTrigger, TestWorkflow } from './n8n.mjs';

const EVENTS = JSON.parse(process.env.MEMRELAY_EVENTS);
const type = new MemrelayTrigger();
const parameters = { events: ['record.created'], filter: '{"kind": {"eq": "alarm"}}' };
const trigger = new TestTrigger(type, parameters);

before(() => trigger.listen());
after(() => trigger.close());

async function write(content, kind = 'alarm') {
  const parameters = { content, options: { kind } };
  const [made] = await new TestWorkflow(new Memrelay(), parameters).run();
  return made;
}

test('the events of the list exist', () => {
  const { options } = type.description.properties.find(({ name }) => name === 'events');
  const unknown = options.map(({ value }) => value).filter((value) => !EVENTS.includes(value));
  assert.deepEqual(unknown, ['*']);
});

test('an active workflow starts with each event that passes the filter', async () => {
  assert.equal(await trigger.lifecycle('checkExists'), false);
  assert.equal(await trigger.lifecycle('create'), true);
  assert.equal(await trigger.lifecycle('checkExists'), true);

  await write('The kettle is on', 'note');
  const made = await write('The kettle boils');
  const event = await trigger.find(({ data }) => data.guid === made.guid);
  assert.equal(event.type, 'record.created');
  assert.equal(event.data.content, 'The kettle boils');
  assert.match(event.id, /^msg_/);
  assert.ok(trigger.started.every(({ data }) => data.kind === 'alarm'));
});

test('a forged request is refused', async () => {
  const { headers, rawBody } = trigger.requests[0];
  assert.equal(headers['content-type'], 'application/json'); // n8n parses no other type
  const starts = trigger.started.length;
  const refused = [
    [headers, Buffer.from(`${rawBody} `)],
    [{ ...headers, 'webhook-id': 'msg_other' }, rawBody],
    [{ ...headers, 'webhook-timestamp': '1' }, rawBody],
    [{ ...headers, 'webhook-timestamp': 'now' }, rawBody],
    [{ ...headers, 'webhook-signature': 'v1,AAAA' }, rawBody],
    [{}, rawBody],
  ];
  for (const request of refused) assert.equal(await trigger.receive(...request), 401);
  assert.equal(trigger.started.length, starts);
  assert.equal(await trigger.receive(headers, rawBody), 200);
});

test('an endpoint that was switched off is switched on again', async () => {
  const { id } = trigger.workflow.getStaticData('node', trigger.node);
  const url = `/v1/pipelines/${process.env.MEMRELAY_PIPELINE}/endpoints/${id}`;
  const call = { baseURL: process.env.MEMRELAY_URL, url };
  await trigger.send({ ...call, method: 'PATCH', body: { active: false } });

  assert.equal(await trigger.lifecycle('checkExists'), true);
  assert.equal((await trigger.send({ ...call, method: 'GET' })).body.active, true);
});

test('a workflow that is switched off deletes its endpoint', async () => {
  assert.equal(await trigger.lifecycle('delete'), true);
  assert.equal(await trigger.lifecycle('checkExists'), false);
  assert.equal(await trigger.lifecycle('delete'), true);
  assert.deepEqual(trigger.workflow.getStaticData('node', trigger.node), {});
});
