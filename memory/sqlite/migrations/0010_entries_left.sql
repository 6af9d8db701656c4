-- A record that was an entry and is none any more may be the one up to which all were looked at; its row may be given to
-- another entry once it is gone. All are looked at once more, for those that were missed so.
DROP TRIGGER entry_left;
CREATE TRIGGER entry_left AFTER UPDATE OF kind ON records WHEN old.kind = 'entry' AND new.kind <> 'entry' BEGIN
  DELETE FROM entries WHERE guid = old.guid;
  DELETE FROM entry_lines WHERE guid = old.guid;
  UPDATE entries_seen SET row = (SELECT coalesce(max(row), 0) FROM records WHERE kind = 'entry' AND row < old.row)
    WHERE row = old.row;
END;
UPDATE entries_seen SET row = 0;
