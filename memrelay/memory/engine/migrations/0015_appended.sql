-- Texts that were appended to a long record and are not yet in its content, its checksum, its
-- indexes and its vector. `row` is the record. `changed_at` is Unix ms. A read of the record, a
-- search and an idle worker merge them into the content (memory/appends.py).
CREATE TABLE appended(
  n INTEGER PRIMARY KEY,
  row INTEGER NOT NULL,
  text TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX appended_row ON appended(row);
