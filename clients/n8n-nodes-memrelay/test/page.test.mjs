import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Memrelay } from '../dist/nodes/Memrelay/Memrelay.node.js';
import { TestWorkflow, TYPE } from './n8n.mjs';

const workflow = readWorkflow(process.env.MEMRELAY_PAGE);
const type = new Memrelay();

/** Return the workflow that a page prints. */
function readWorkflow(path) {
  const [, text] = /^```json\n([^]*?)^```/m.exec(readFileSync(path, 'utf8'));
  return JSON.parse(text);
}

/** Run the workflow for a message, with a model that answers `answer`. Return its prompt. */
async function chat(sessionId, chatInput, answer) {
  const results = { Chat: [{ sessionId, chatInput }] };
  let name = 'Chat';
  let prompt = '';
  while (workflow.connections[name]) {
    const items = results[name].length > 0 ? results[name] : [{}]; // "Always Output Data"
    name = workflow.connections[name].main[0][0].node;
    const step = new TestWorkflow(type, {}, { workflow, name, items, results });
    if (step.node.type === TYPE) results[name] = await step.run();
    else if (name === 'Agent') {
      prompt = step.evaluate(step.node.parameters.text, 0);
      results[name] = [{ output: answer }];
    } else {
      const { value } = step.node.parameters.assignments.assignments[0];
      results[name] = [{ output: step.evaluate(value, 0) }];
    }
  }
  assert.deepEqual(results[name], [{ output: answer }]);
  return prompt;
}

test('the bot of the page remembers what was said in another conversation', async () => {
  const first = await chat('s1', 'I moved to Porto', 'Noted.');
  assert.match(first, /I moved to Porto$/);
  const second = await chat('s2', 'Where did I move to?', 'To Porto.');
  assert.match(second, /I moved to Porto[^]*Where did I move to\?$/);
});

test('the workflow of the README finds what it wrote', async () => {
  const workflow = readWorkflow('README.md');
  const results = { Start: [{}] };
  for (const name of ['Write', 'Find']) {
    const step = new TestWorkflow(type, {}, { workflow, name, results });
    results[name] = await step.run();
  }
  assert.ok(results.Find.some(({ guid }) => guid === results.Write[0].guid));
});
