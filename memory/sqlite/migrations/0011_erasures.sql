-- What was erased for good: how much, when, by whom and why, and nothing of what it was. `ended_at` is NULL while it is still
-- to be taken out of other places than this store's tables; times are Unix ms.
CREATE TABLE erasures(
  n INTEGER PRIMARY KEY,
  asked_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  records INTEGER NOT NULL,
  versions INTEGER NOT NULL,
  replies INTEGER NOT NULL DEFAULT 0,
  messages INTEGER NOT NULL DEFAULT 0,
  letters INTEGER NOT NULL DEFAULT 0,
  left_over TEXT NOT NULL DEFAULT '',
  ended_at INTEGER
) STRICT;

-- What it was, until it is gone everywhere: guids, and texts, by which messages that hold them are found.
CREATE TABLE erasing(n INTEGER PRIMARY KEY, sort TEXT NOT NULL, text TEXT NOT NULL) STRICT;
