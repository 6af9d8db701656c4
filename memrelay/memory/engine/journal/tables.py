"""The tables of the journals in PostgreSQL, and the functions that change several of them at once.

They are in the schema `memrelay`, next to the tables of the control plane. Patches and snapshots
are compressed and encrypted with the key of their generation.
"""

PARTITIONS = 16
# The number is arbitrary ("memj"). It keeps two programs from creating the tables at once.
LOCK = "SELECT pg_advisory_xact_lock(1835363690)"
# SQLSTATE of an exception for an outdated epoch.
FENCED = "MR001"


def _partitions(table: str) -> tuple[str, ...]:
    return tuple(
        f"CREATE TABLE {table}_{number} PARTITION OF {table} "
        f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        for number in range(PARTITIONS)
    )


TABLES = (
    # `lease` is the epoch that the bus has issued, `epoch` that of this table. `n`, `mark` and
    # `schema` are those of the last commit. `snapshot` is the commit of the snapshot, whose parts
    # have the id `upload`; "" for none. `bytes` is the size of the patches after it.
    # The order of bytes lets the index find the stores of a pipeline.
    'CREATE TABLE stores(store text COLLATE "C" PRIMARY KEY, lease bigint NOT NULL, '
    "epoch bigint NOT NULL, generation bigint NOT NULL, n bigint NOT NULL, mark text NOT NULL, "
    "schema int NOT NULL, snapshot bigint NOT NULL, snapshot_mark text NOT NULL, "
    "upload text NOT NULL, bytes bigint NOT NULL) WITH (fillfactor = 50)",
    "CREATE TABLE generations(store text NOT NULL, generation bigint NOT NULL, key bytea NOT NULL, "
    "PRIMARY KEY (store, generation))",
    "CREATE TABLE journal(store text NOT NULL, n bigint NOT NULL, epoch bigint NOT NULL, "
    "schema int NOT NULL, mark text NOT NULL, patch bytea NOT NULL, "
    "PRIMARY KEY (store, n)) PARTITION BY HASH (store)",
    # Encrypted data cannot be compressed again. PostgreSQL 16 could say so in CREATE TABLE.
    # Partitions take this over from the table.
    "ALTER TABLE journal ALTER COLUMN patch SET STORAGE EXTERNAL",
    *_partitions("journal"),
    "CREATE TABLE snapshots(store text NOT NULL, upload text NOT NULL, part int NOT NULL, "
    "data bytea NOT NULL, PRIMARY KEY (store, upload, part)) PARTITION BY HASH (store)",
    "ALTER TABLE snapshots ALTER COLUMN data SET STORAGE EXTERNAL",
    *_partitions("snapshots"),
)
# Appends the next commit of a store.
APPEND = f"""
CREATE FUNCTION append_commit(name text, owner bigint, number bigint, of_schema int, of_mark text,
  changes bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE stores
  SET n = number, mark = of_mark, schema = of_schema, bytes = bytes + length(changes)
  WHERE store = name AND epoch = owner AND n = number - 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'another worker owns the store' USING ERRCODE = '{FENCED}';
  END IF;
  INSERT INTO journal(store, n, epoch, schema, mark, patch)
  VALUES (name, number, owner, of_schema, of_mark, changes);
END $$
"""
# Completes an upload as the snapshot of a store: later commits stay, earlier ones are deleted.
COMPLETE = f"""
CREATE FUNCTION complete_snapshot(name text, owner bigint, of_generation bigint, upload_id text,
  number bigint, of_mark text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE stores SET snapshot = number, snapshot_mark = of_mark, upload = upload_id
  WHERE store = name AND epoch = owner AND generation = of_generation AND n >= number;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'another worker owns the store' USING ERRCODE = '{FENCED}';
  END IF;
  DELETE FROM journal WHERE store = name AND n <= number;
  DELETE FROM snapshots WHERE store = name AND upload <> upload_id;
  UPDATE stores
  SET bytes = (SELECT coalesce(sum(length(patch)), 0) FROM journal WHERE store = name)
  WHERE store = name;
END $$
"""
# Makes an upload, which has the whole store, the only content of a new generation.
REPLACE = f"""
CREATE FUNCTION begin_generation(name text, owner bigint, made bigint, number bigint,
  of_mark text, of_schema int, upload_id text, with_key bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE stores SET generation = made, n = number, mark = of_mark, schema = of_schema,
    snapshot = number, snapshot_mark = of_mark, upload = upload_id, bytes = 0
  WHERE store = name AND epoch = owner AND n = number - 1 AND generation = made - 1;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'another worker owns the store' USING ERRCODE = '{FENCED}';
  END IF;
  DELETE FROM generations WHERE store = name;
  INSERT INTO generations VALUES (name, made, with_key);
  DELETE FROM journal WHERE store = name;
  DELETE FROM snapshots WHERE store = name AND upload <> upload_id;
END $$
"""
MIGRATIONS: tuple[tuple[str, ...], ...] = ((*TABLES, APPEND, COMPLETE, REPLACE),)
COLUMNS = "epoch, generation, n, mark, schema, snapshot, snapshot_mark, upload, bytes"
LOOK = f"SELECT {COLUMNS} FROM stores WHERE store = $1"
# An owner that has the epoch keeps it. Another one gets the next epoch.
TAKE_OVER = f"""
UPDATE stores SET epoch = epoch + CASE WHEN epoch = $3 THEN 0 ELSE 1 END, lease = $2
WHERE store = $1 AND lease <= $2 AND (epoch = $3 OR $3 = 0) RETURNING {COLUMNS}
"""
SEIZE = f"UPDATE stores SET epoch = epoch + 1 WHERE store = $1 RETURNING {COLUMNS}"
CREATE = f"""
INSERT INTO stores VALUES ($1, $2, 1, 1, 0, '', $3, 0, '', '', 0)
ON CONFLICT DO NOTHING RETURNING {COLUMNS}
"""
ADD_KEY = "INSERT INTO generations VALUES ($1, 1, $2)"
