-- Records. `row` is the order of arrival. Times are Unix ms. `tags` and `data` are JSON.
CREATE TABLE records(
  row INTEGER PRIMARY KEY,
  guid TEXT NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  kind TEXT NOT NULL,
  content TEXT NOT NULL,
  source TEXT NOT NULL,
  tags TEXT NOT NULL DEFAULT '[]',
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  key TEXT,
  owner TEXT,
  data TEXT,
  expires_at INTEGER,
  in_context INTEGER NOT NULL DEFAULT 0,
  encrypted INTEGER NOT NULL DEFAULT 0,
  thread TEXT,
  seq INTEGER
) STRICT;
CREATE INDEX records_kind ON records(kind);
CREATE INDEX records_scope_kind ON records(scope, kind);

-- The full-text index. The program writes it in bulk: triggers would flush it row by row.
CREATE VIRTUAL TABLE records_fts USING fts5(
  content, content = 'records', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
);

-- Completed inputs that may be redelivered. A replay sends `outputs` again and changes nothing.
CREATE TABLE inbox(
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  bundle TEXT NOT NULL,
  outputs BLOB NOT NULL
) STRICT;

-- Idempotency keys of producers, with the outcome of their messages, while they are deduplicated.
CREATE TABLE producer_ids(
  id TEXT PRIMARY KEY,
  bundle TEXT NOT NULL,
  outputs BLOB NOT NULL,
  done_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX producer_ids_done_at ON producer_ids(done_at);

-- Continuations: derived messages that run later or in another store.
CREATE TABLE pending(
  id TEXT PRIMARY KEY,
  pipeline TEXT NOT NULL,
  bundle TEXT NOT NULL,
  agent TEXT NOT NULL,
  swarm TEXT NOT NULL,
  hop INTEGER NOT NULL,
  data BLOB NOT NULL,
  root TEXT NOT NULL,
  reply TEXT NOT NULL,
  due INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Inputs that were in flight when the program ended, counted before each further attempt.
CREATE TABLE attempts(id TEXT PRIMARY KEY, started INTEGER NOT NULL) STRICT, WITHOUT ROWID;
