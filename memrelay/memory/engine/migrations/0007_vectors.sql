-- Vectors of records: little-endian float16 of unit length, '' for a text that the embedder
-- rejects. There are two places, so that those of another embedder can be built while the first are
-- searched. Every record up to the row `looked_at` has a vector, except those in `vectors_todo`.
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

-- A change of a record deletes the vectors of its old text. Stores without vectors pay one lookup.
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
