-- The number of the change that made a state, and of the one that ended it. Changes of records are
-- numbered in their order, and no number is used twice. A state from before this migration has 0.
ALTER TABLE records ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
-- The row that the record had in this state.
ALTER TABLE versions ADD COLUMN row INTEGER NOT NULL DEFAULT 0;
ALTER TABLE appended ADD COLUMN born INTEGER NOT NULL DEFAULT 0;

-- The last change of each commit with its time (Unix ms), as long as the states of then are kept.
-- Times never go back.
CREATE TABLE moments(change INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL) STRICT;
-- A new store had no record at any earlier time.
INSERT INTO moments SELECT 0, CASE WHEN n = 0 THEN 0 ELSE unixepoch() * 1000 END FROM commits;
ALTER TABLE commits ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
