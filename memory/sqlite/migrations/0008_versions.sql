-- Which of its states a record is in: 1 as it was made, one more with each change, its deletion included.
ALTER TABLE records ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
CREATE INDEX records_expires_at ON records(expires_at) WHERE expires_at IS NOT NULL;

-- Earlier states of records, the last one of those that were deleted too, each with what ended it: by whom, when (Unix ms) and
-- why. `content` is NULL where the state after it begins with it, in so many characters as `length` says; where that is NULL
-- as well, the record was not there: it had been deleted, and was brought back.
CREATE TABLE versions(
  n INTEGER PRIMARY KEY,
  guid TEXT NOT NULL,
  number INTEGER NOT NULL,
  scope TEXT NOT NULL,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  tags TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  key TEXT,
  owner TEXT,
  data TEXT,
  expires_at INTEGER,
  in_context INTEGER NOT NULL,
  encrypted INTEGER NOT NULL,
  thread TEXT,
  seq INTEGER,
  crc INTEGER,
  length INTEGER,
  content TEXT,
  what TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX versions_guid ON versions(guid);
CREATE INDEX versions_deleted ON versions(expires_at) WHERE what = 'delete';
