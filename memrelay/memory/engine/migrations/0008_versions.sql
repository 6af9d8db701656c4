-- The version number of a record: 1 when created, plus one for each change, including its deletion.
ALTER TABLE records ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
CREATE INDEX records_expires_at ON records(expires_at) WHERE expires_at IS NOT NULL;

-- Earlier versions of records, including the last one of deleted records, each with the actor, time
-- (Unix ms) and reason of the change that ended it. `content` is NULL if the next version begins
-- with it, and then has `length` characters. If `length` is NULL too, the record was deleted at
-- that time and restored later.
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
