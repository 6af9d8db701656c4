-- Checksums reveal damage that SQLite does not see. `crc` is defined in memory/records/record.py
-- and NULL in older rows.
ALTER TABLE records ADD COLUMN crc INTEGER;

-- One row: the number of committed transactions, and the restore or salvage that the store comes
-- from, '' for none. The bus keeps the last acknowledged number, so a store with a lower one has
-- lost commits.
CREATE TABLE commits(n INTEGER NOT NULL, lineage TEXT NOT NULL) STRICT;
INSERT INTO commits VALUES (0, '');
