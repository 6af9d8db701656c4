-- Named memories: what they are called. `row` is the order in which they were made; tags are JSON; times are Unix ms.
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

-- Their entries are records of the kind `entry`, whose scope is the memory's id. What such a record has beside itself:
-- `digested` is whether its lines are in `entry_lines` as they are now.
CREATE TABLE entries(
  guid TEXT PRIMARY KEY,
  memory TEXT NOT NULL,
  digested INTEGER NOT NULL DEFAULT 0,
  confirmations INTEGER NOT NULL DEFAULT 0,
  confirmed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX entries_undigested ON entries(memory) WHERE digested = 0;

-- By which the same text is found again: a digest of an entry as a whole, and of each of its lines (memory/entry_text.py).
CREATE TABLE entry_lines(
  memory TEXT NOT NULL,
  digest BLOB NOT NULL,
  guid TEXT NOT NULL,
  PRIMARY KEY (memory, digest, guid)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_lines_guid ON entry_lines(guid);

-- New ones are looked for when an entry is written: none up to this row lacks its row in `entries`. A trigger on inserts would
-- cost every record, since SQLite then puts the rows of a statement aside first.
CREATE TABLE entries_seen(row INTEGER NOT NULL) STRICT;
INSERT INTO entries_seen VALUES (0);

-- Whatever changes or deletes such a record, the rows beside it follow. Records of other kinds pay for a comparison.
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
