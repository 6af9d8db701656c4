-- Vectors of records: half-precision numbers, little-endian, of unit length; '' for a text that the embedder does not take.
-- There are two places for them, so that those of another embedder can be made while the first are searched. `looked_at` is
-- the row up to which every record has a vector, but for those that stand in `vectors_todo`.
CREATE TABLE vector_sets(
  place INTEGER PRIMARY KEY CHECK (place IN (0, 1)),
  fingerprint TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  serves INTEGER NOT NULL,
  looked_at INTEGER NOT NULL DEFAULT 0
) STRICT;
-- `made_of` is the CRC-32 of the text.
CREATE TABLE vectors_0(row INTEGER PRIMARY KEY, made_of INTEGER NOT NULL, vector BLOB NOT NULL) STRICT;
CREATE TABLE vectors_1(row INTEGER PRIMARY KEY, made_of INTEGER NOT NULL, vector BLOB NOT NULL) STRICT;
CREATE TABLE vectors_todo(place INTEGER NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (place, row)) STRICT, WITHOUT ROWID;

-- Whatever changes a record, its vectors go with the text that they were made of. Stores without vectors pay one look.
CREATE TRIGGER records_revised AFTER UPDATE OF content, source, thread ON records
WHEN EXISTS (SELECT 1 FROM vector_sets) BEGIN
  DELETE FROM vectors_0 WHERE row = old.row;
  DELETE FROM vectors_1 WHERE row = old.row;
  INSERT OR IGNORE INTO vectors_todo SELECT place, old.row FROM vector_sets WHERE old.row <= looked_at;
END;
CREATE TRIGGER records_gone AFTER DELETE ON records
WHEN EXISTS (SELECT 1 FROM vector_sets) BEGIN
  DELETE FROM vectors_0 WHERE row = old.row;
  DELETE FROM vectors_1 WHERE row = old.row;
  DELETE FROM vectors_todo WHERE row = old.row;
  -- the rows of the last records may be given to others
  UPDATE vector_sets SET looked_at = (SELECT coalesce(max(row), 0) FROM records)
    WHERE looked_at > (SELECT coalesce(max(row), 0) FROM records);
END;
