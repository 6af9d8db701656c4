-- The record up to which all were looked up may no longer be an entry. After its deletion, another
-- entry may get its row. So all are looked up once more, to find those that were missed.
DROP TRIGGER entry_left;
CREATE TRIGGER entry_left AFTER UPDATE OF kind ON records WHEN old.kind = 'entry' AND new.kind <> 'entry' BEGIN
  DELETE FROM entries WHERE guid = old.guid;
  DELETE FROM entry_lines WHERE guid = old.guid;
  UPDATE entries_seen SET row = (SELECT coalesce(max(row), 0) FROM records WHERE kind = 'entry' AND row < old.row)
    WHERE row = old.row;
END;
UPDATE entries_seen SET row = 0;
