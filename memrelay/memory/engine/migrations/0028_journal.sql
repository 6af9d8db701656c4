-- The changes of a store with a journal are recorded as changes of rows, so every table needs an
-- explicit primary key. `journal` has the last entry of the journal that this file contains
-- (memory/journal). It stays empty in a store without a journal.
CREATE TABLE journal(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL,
  n INTEGER NOT NULL,
  mark TEXT NOT NULL
) STRICT;
-- A table is replaced without renaming one, because triggers mention its name.
CREATE TABLE before_0028(n INTEGER NOT NULL, lineage TEXT NOT NULL, row INTEGER NOT NULL) STRICT;
INSERT INTO before_0028 SELECT n, lineage, row FROM commits, entries_seen;
DROP TABLE commits;
CREATE TABLE commits(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  n INTEGER NOT NULL,
  lineage TEXT NOT NULL
) STRICT;
INSERT INTO commits SELECT 1, n, lineage FROM before_0028;
DROP TABLE entries_seen;
CREATE TABLE entries_seen(id INTEGER PRIMARY KEY CHECK (id = 1), row INTEGER NOT NULL) STRICT;
INSERT INTO entries_seen SELECT 1, row FROM before_0028;
DROP TABLE before_0028;
-- `n` is the order in which messages were put off.
CREATE TABLE before_0028 AS SELECT rowid AS n, * FROM pending;
DROP TABLE pending;
CREATE TABLE pending(
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  pipeline TEXT NOT NULL,
  bundle TEXT NOT NULL,
  agent TEXT NOT NULL,
  swarm TEXT NOT NULL,
  hop INTEGER NOT NULL,
  data BLOB NOT NULL,
  root TEXT NOT NULL,
  reply TEXT NOT NULL,
  due INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  producer TEXT NOT NULL,
  heard INTEGER NOT NULL,
  request BLOB,
  result BLOB
) STRICT;
INSERT INTO pending SELECT * FROM before_0028;
DROP TABLE before_0028;
