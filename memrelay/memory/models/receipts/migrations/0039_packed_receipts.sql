-- The receipts of one commit in one row (models/receipts/packing.py), from the id `first` to the id
-- `last`. Receipts of the former table, which no release had, are given up.
DROP TABLE receipts;
CREATE TABLE receipts(
  n INTEGER PRIMARY KEY,
  first TEXT NOT NULL,
  last TEXT NOT NULL,
  data BLOB NOT NULL
) STRICT;
CREATE INDEX receipts_by_last ON receipts(last);
