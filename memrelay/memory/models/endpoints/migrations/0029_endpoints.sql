-- The endpoints of a pipeline, in its built-in store `endpoints`. `spec` and `secrets` are JSON.
-- `failures` counts failed tries since the last success, and `failing_since` is the time of the
-- first. `disabled` is why nothing is sent, '' while it is. Times are Unix ms.
CREATE TABLE endpoints(
  id TEXT NOT NULL PRIMARY KEY,
  spec TEXT NOT NULL,
  secrets TEXT NOT NULL,
  disabled TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  failing_since INTEGER,
  last_at INTEGER,
  last_answer TEXT NOT NULL
) STRICT;
-- The deliveries to endpoints. They have ids, and no values: what is sent is read from `store` when
-- it is sent. `change` is the number in its feed. `data` is JSON of further ids, or of a test.
-- `state` is 0 waiting, 1 delivered, 2 failed. `due` is the time of the next try.
CREATE TABLE deliveries(
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  endpoint TEXT NOT NULL,
  store TEXT NOT NULL,
  change INTEGER NOT NULL,
  type TEXT NOT NULL,
  subject TEXT NOT NULL,
  data TEXT,
  at INTEGER NOT NULL,
  state INTEGER NOT NULL,
  due INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  ended_at INTEGER
) STRICT;
CREATE INDEX deliveries_due ON deliveries(endpoint, state, due);
CREATE INDEX deliveries_ended ON deliveries(ended_at) WHERE ended_at IS NOT NULL;
-- The tries of a delivery. `status` is the HTTP status, 0 without an answer. `answer` is its
-- beginning, or why there is none.
CREATE TABLE delivery_tries(
  n INTEGER PRIMARY KEY,
  delivery INTEGER NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  took_ms INTEGER NOT NULL,
  status INTEGER NOT NULL,
  answer TEXT NOT NULL,
  UNIQUE (delivery, number)
) STRICT;
-- The last change of each store that has become deliveries.
CREATE TABLE delivery_cursors(
  store TEXT NOT NULL PRIMARY KEY,
  n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
