-- Named memories. `row` is the order of creation. Tags are JSON. Times are Unix ms.
CREATE TABLE memories(
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  description TEXT,
  tags TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX memories_name ON memories(name);

-- Their entries are records of the kind `entry`, with the memory's id as scope. This table has the
-- additional data of such a record. `digested` is whether its current lines are in `entry_lines`.
CREATE TABLE entries(
  guid TEXT PRIMARY KEY,
  memory TEXT NOT NULL,
  digested INTEGER NOT NULL DEFAULT 0,
  confirmations INTEGER NOT NULL DEFAULT 0,
  confirmed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_undigested ON entries(memory) WHERE digested = 0;

-- Digests of each entry and of each of its lines, to find the same text again
-- (memory/records/entry_text.py).
CREATE TABLE entry_lines(
  memory TEXT NOT NULL,
  digest BLOB NOT NULL,
  guid TEXT NOT NULL,
  PRIMARY KEY (memory, digest, guid)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_lines_guid ON entry_lines(guid);

-- New entries are looked up when an entry is written: none up to this row lacks its row in
-- `entries`. A trigger on inserts would slow down every record, because SQLite then buffers the
-- rows of a statement first.
CREATE TABLE entries_seen(row INTEGER NOT NULL) STRICT;
INSERT INTO entries_seen VALUES (0);

-- A change or deletion of an entry updates its rows here. Records of other kinds pay for a
-- comparison.
CREATE TRIGGER entry_revised AFTER UPDATE OF content, scope, kind ON records WHEN new.kind = 'entry' BEGIN
  DELETE FROM entry_lines WHERE guid = new.guid;
  INSERT INTO entries(guid, memory) VALUES (new.guid, new.scope)
    ON CONFLICT (guid) DO UPDATE SET memory = excluded.memory, digested = 0;
END;
CREATE TRIGGER entry_left AFTER UPDATE OF kind ON records WHEN old.kind = 'entry' AND new.kind <> 'entry' BEGIN
  DELETE FROM entries WHERE guid = old.guid;
  DELETE FROM entry_lines WHERE guid = old.guid;
END;
CREATE TRIGGER entry_went AFTER DELETE ON records WHEN old.kind = 'entry' BEGIN
  DELETE FROM entries WHERE guid = old.guid;
  DELETE FROM entry_lines WHERE guid = old.guid;
  -- the row of the last record may be given to another
  UPDATE entries_seen SET row = (SELECT coalesce(max(row), 0) FROM records WHERE kind = 'entry' AND row < old.row)
    WHERE row = old.row;
END;
