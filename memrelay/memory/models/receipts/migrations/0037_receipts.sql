-- The receipts of reads (docs/receipts.md). `id` is a uuid7 with the time of the read. `change` is
-- the last change of the store that the read saw. `question` is the input of `operation` as JSON,
-- "" after an erasure. `input` is the id of the message whose answer used what was found. `found`
-- is JSON: [guid, number of the version, score] of each record, best first. `fingerprint` is JSON.
CREATE TABLE receipts(
  id TEXT PRIMARY KEY,
  change INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  operation TEXT NOT NULL,
  question TEXT NOT NULL,
  actor TEXT NOT NULL,
  agent TEXT NOT NULL,
  input TEXT NOT NULL,
  thread TEXT NOT NULL,
  found TEXT NOT NULL,
  left_out INTEGER NOT NULL,
  fingerprint TEXT NOT NULL
) STRICT, WITHOUT ROWID;
