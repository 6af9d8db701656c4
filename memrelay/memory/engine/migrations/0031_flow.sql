-- `flow` is the key of a message that waits because of its agent's `wf_flow`. It is a digest, so no
-- text of a message is in these tables.
ALTER TABLE pending ADD COLUMN flow BLOB;
CREATE INDEX pending_flow ON pending(flow) WHERE flow IS NOT NULL;
CREATE INDEX pending_flow_root ON pending(root) WHERE flow IS NOT NULL;
-- `due` is when the next message of a key may run, NULL if none waits. `starts` has the times of the
-- latest runs, all in Unix ms. Without waiting messages, the row is needed until `free_at`.
CREATE TABLE flow_keys(
  key BLOB NOT NULL PRIMARY KEY,
  pipeline TEXT NOT NULL,
  agent TEXT NOT NULL,
  due INTEGER,
  starts BLOB NOT NULL,
  free_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_keys_of_agent ON flow_keys(pipeline, agent);
CREATE INDEX flow_keys_due ON flow_keys(due) WHERE due IS NOT NULL;
