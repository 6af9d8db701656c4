-- The inputs of pipelines with `inputs_days`: one row for each batch, in the order in which its
-- inputs ran. `first_ms` and `last_ms` are the times of the oldest and the newest, Unix ms.
-- `change` is the last number of the change feed after the batch, 0 without a feed. `data` is
-- packed (models/inputs/packing.py).
CREATE TABLE inputs(
  n INTEGER PRIMARY KEY,
  first_ms INTEGER NOT NULL,
  last_ms INTEGER NOT NULL,
  change INTEGER NOT NULL,
  data BLOB NOT NULL
) STRICT;
