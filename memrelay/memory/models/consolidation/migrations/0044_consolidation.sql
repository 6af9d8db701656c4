-- How far the block `consolidate` has read the entries of named memories (docs/consolidation.md).
-- `name` is the alias of its agent. `position` is the row of the last entry that the present pass
-- has looked at, 0 before a pass. Entries are compared that changes after number `since` have made;
-- `began` is the number of the last change when the pass began.
CREATE TABLE consolidation_passes(
  name TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  since INTEGER NOT NULL,
  began INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Digests of the findings that were proposed, so that none is proposed again. `proposal` is the guid
-- of the proposal, and `removes` that of the entry that it deletes.
CREATE TABLE consolidation_findings(
  digest BLOB PRIMARY KEY,
  proposal TEXT NOT NULL,
  removes TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX consolidation_findings_removes ON consolidation_findings(removes);
