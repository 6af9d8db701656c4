// The lines that differ between two texts.

const MAX_CELLS = 4_000_000, CONTEXT = 2;

// Returns a list of {mark, line} with mark "+", "-" or " ", or null if the texts are too long to be compared.
export function compareLines(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let head = 0, tail = 0;
  while (head < Math.min(a.length, b.length) && a[head] === b[head]) head += 1;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  if (x.length * y.length > MAX_CELLS) return null;
  const same = (lines) => lines.map((line) => ({ mark: " ", line }));
  return [...same(a.slice(Math.max(0, head - CONTEXT), head)), ...compare(x, y), ...same(a.slice(a.length - tail).slice(0, CONTEXT))];
}

// The longest common subsequence decides which lines stay.
function compare(x, y) {
  const width = y.length + 1, lengths = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] = x[i] === y[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  const out = [];
  let i = 0, j = 0;
  while (i < x.length || j < y.length) {
    if (i < x.length && j < y.length && x[i] === y[j]) out.push({ mark: " ", line: x[(i += 1, j += 1, i - 1)] });
    else if (j >= y.length || (i < x.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) out.push({ mark: "-", line: x[(i += 1) - 1] });
    else out.push({ mark: "+", line: y[(j += 1) - 1] });
  }
  return out;
}

// Names the agents that were added, changed and removed, and whether fields of the pipeline differ.
export function compareAgents(before, after) {
  const byAlias = (bundle) => new Map((bundle.agents ?? []).map((agent) => [agent.agent_alias, JSON.stringify(agent)]));
  const [old, now] = [byAlias(before), byAlias(after)], names = (list) => [...list].map(([alias]) => alias);
  const rest = ({ agents: _, ...keys }) => JSON.stringify(keys);
  return {
    added: names([...now].filter(([alias]) => !old.has(alias))),
    changed: names([...now].filter(([alias, text]) => old.has(alias) && old.get(alias) !== text)),
    removed: names([...old].filter(([alias]) => !now.has(alias))),
    pipeline: rest(before) !== rest(after),
  };
}
