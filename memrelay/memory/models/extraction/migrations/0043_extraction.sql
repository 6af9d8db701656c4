-- The turns from which a record was made: a fact of the block extract, or a summary (docs/extraction.md).
-- `record` may be the guid of a write that waits for review.
CREATE TABLE evidence(
  record TEXT NOT NULL,
  turn TEXT NOT NULL,
  PRIMARY KEY (record, turn)
) STRICT, WITHOUT ROWID;
CREATE INDEX evidence_turn ON evidence(turn);

-- How far an agent with the block extract or summarize has read. All turns up to the row `read_to`
-- are done, and those of `done`, a JSON array of later rows. `call` is the id of the open call to the
-- model, '' for none, `until_ms` when it counts as lost, and `batch` its turns: JSON [[row, guid], ...].
-- `attempts` counts useless answers to the present batch, and `failures` calls without an answer since
-- the last success. The budget is counted until `period_ms`. `settings` is JSON. Times are Unix ms.
CREATE TABLE extractors(
  pipeline TEXT NOT NULL,
  agent TEXT NOT NULL,
  block TEXT NOT NULL,
  settings TEXT NOT NULL,
  read_to INTEGER NOT NULL,
  done TEXT NOT NULL,
  call TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  batch TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  retry_ms INTEGER NOT NULL,
  period_ms INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  batches INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  held INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  invalid INTEGER NOT NULL,
  rejected INTEGER NOT NULL,
  rejected_turns INTEGER NOT NULL,
  error TEXT NOT NULL,
  error_ms INTEGER NOT NULL,
  ran_ms INTEGER NOT NULL,
  PRIMARY KEY (pipeline, agent)
) STRICT, WITHOUT ROWID;
