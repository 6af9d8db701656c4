-- Writes that a policy holds for review (docs/trust.md). `guid` is that of the answer, and of the
-- record that the write creates. `op` and `input` (JSON) are the call to make. `candidate` is JSON:
-- the record as it would be. `target` is the record that would change, "" for a new one, and
-- `version` its version then. Times are Unix ms; the row ends at `until_ms`. A decision empties
-- `input` and `candidate`; `result` is JSON with the ids of what was written.
CREATE TABLE proposals(
  n INTEGER PRIMARY KEY,
  guid TEXT NOT NULL UNIQUE,
  op TEXT NOT NULL,
  input TEXT NOT NULL,
  candidate TEXT NOT NULL,
  policy TEXT NOT NULL,
  actor TEXT NOT NULL,
  origin TEXT NOT NULL,
  source TEXT NOT NULL,
  target TEXT NOT NULL,
  version TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  editor TEXT NOT NULL DEFAULT '',
  decision TEXT NOT NULL DEFAULT '',
  decided_by TEXT NOT NULL DEFAULT '',
  decided_ms INTEGER NOT NULL DEFAULT 0,
  reason TEXT NOT NULL DEFAULT '',
  result TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX proposals_decided ON proposals(decision, n);
CREATE INDEX proposals_end ON proposals(until_ms);
