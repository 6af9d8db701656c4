-- Counters of records that need no history: uses with the last time, the last time that the subject
-- was seen, outcomes, and durations. `timed` uses took `total_ms` together. Times are Unix ms.
CREATE TABLE tallies(
  guid TEXT PRIMARY KEY,
  uses INTEGER NOT NULL DEFAULT 0,
  used_at INTEGER,
  seen_at INTEGER,
  good INTEGER NOT NULL DEFAULT 0,
  bad INTEGER NOT NULL DEFAULT 0,
  timed INTEGER NOT NULL DEFAULT 0,
  total_ms INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tally_deleted AFTER DELETE ON records BEGIN
  DELETE FROM tallies WHERE guid = old.guid;
END;
