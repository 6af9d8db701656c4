-- Erasures: how much, when, by whom and why, without the erased data. `ended_at` is NULL until the
-- data is erased outside of this store's tables too. Times are Unix ms.
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

-- The erased guids and texts, until they are erased everywhere. Messages that contain them are
-- found by these.
CREATE TABLE erasing(n INTEGER PRIMARY KEY, sort TEXT NOT NULL, text TEXT NOT NULL) STRICT;
