-- Endpoints that get the changes of a period that never were deliveries: from `since` on, before
-- `until` (Unix ms). `store` and `n` are the last change that was looked at: '' and 0 for none, -1
-- for all of the store.
CREATE TABLE delivery_recoveries(
  endpoint TEXT NOT NULL PRIMARY KEY,
  since INTEGER NOT NULL,
  until INTEGER NOT NULL,
  store TEXT NOT NULL,
  n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
