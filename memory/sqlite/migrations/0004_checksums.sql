-- By which damage is found that SQLite does not see. `crc` is memory/sqlite/checksum.py's; NULL where the row is older.
ALTER TABLE records ADD COLUMN crc INTEGER;

-- One row: how many transactions were committed since the store was made, and which restore or salvage it comes from, '' for
-- none. The bus keeps the number that it was told last, so a store that has fewer has lost some.
CREATE TABLE commits(n INTEGER NOT NULL, lineage TEXT NOT NULL) STRICT;
INSERT INTO commits VALUES (0, '');
