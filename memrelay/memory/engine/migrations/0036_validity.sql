-- The period in which what a record says is true: from `valid_from` until before `valid_to`, Unix ms,
-- NULL for open.
ALTER TABLE records ADD COLUMN valid_from INTEGER;
ALTER TABLE records ADD COLUMN valid_to INTEGER;
ALTER TABLE versions ADD COLUMN valid_from INTEGER;
ALTER TABLE versions ADD COLUMN valid_to INTEGER;
CREATE INDEX records_validity ON records(valid_from, valid_to, guid)
WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL;
