-- A pending message may wait for an errand: a request that a block wants executed outside of the
-- database thread. `request` is JSON with the order and the request, and NULL for other messages.
-- `result` is JSON with the value or the error, and NULL while the errand is open.
ALTER TABLE pending ADD COLUMN request BLOB;
ALTER TABLE pending ADD COLUMN result BLOB;
