-- Earlier states of named memories, with the numbers of the changes that made and ended each one.
-- `row` is that of the memory. A memory from before this migration has 0 as its first change.
CREATE TABLE memory_versions(
  n INTEGER PRIMARY KEY,
  row INTEGER NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  description TEXT,
  tags TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  born INTEGER NOT NULL,
  ended INTEGER NOT NULL,
  ended_at INTEGER NOT NULL
) STRICT;
ALTER TABLE memories ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
