-- The change feed: one row for each committed change, in order. `at` is Unix ms. `subject` is the
-- guid of a record or another id. `data` is JSON with further ids. Rows never hold values. The
-- newest row stays, because SQLite would assign its number again (memory/feed.py).
CREATE TABLE changes(
  n INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  subject TEXT NOT NULL,
  actor TEXT NOT NULL,
  data TEXT
) STRICT;
