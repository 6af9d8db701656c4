-- Checkpoints of LangGraph threads (memory/agents/checkpoints.py). `agent` keeps the threads of
-- agents apart. `checkpoint` is a checkpoint without the values of its channels. `channels` is JSON
-- with [name, type, number of items or null] for each channel that has a value, in the order of its
-- parts. `numbers` holds the numbers of these parts, such as 1-40,43: one for each item of a list,
-- one for any other value. Checkpoints of a thread share the parts that did not change. Each BLOB begins
-- with a byte: 0 for plain data, 1 for data that zlib compressed. `created_at` is Unix ms.
CREATE TABLE checkpoints(
  agent TEXT NOT NULL,
  thread TEXT NOT NULL,
  ns TEXT NOT NULL,
  id TEXT NOT NULL,
  parent TEXT NOT NULL,
  type TEXT NOT NULL,
  checkpoint BLOB NOT NULL,
  metadata TEXT NOT NULL,
  run TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  channels TEXT NOT NULL,
  numbers TEXT NOT NULL,
  PRIMARY KEY(agent, thread, ns, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX checkpoints_run ON checkpoints(run) WHERE run <> '';
CREATE TABLE checkpoint_values(
  agent TEXT NOT NULL,
  thread TEXT NOT NULL,
  n INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY(agent, thread, n)
) STRICT, WITHOUT ROWID;
-- Writes of tasks that follow a checkpoint.
CREATE TABLE checkpoint_writes(
  agent TEXT NOT NULL,
  thread TEXT NOT NULL,
  ns TEXT NOT NULL,
  id TEXT NOT NULL,
  task TEXT NOT NULL,
  idx INTEGER NOT NULL,
  path TEXT NOT NULL,
  channel TEXT NOT NULL,
  type TEXT NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY(agent, thread, ns, id, task, idx)
) STRICT, WITHOUT ROWID;
