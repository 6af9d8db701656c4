"""Numbered changes of system.db's schema. Appended, never edited: files that exist have run the old
ones."""

BUNDLES_AND_DEAD_LETTERS = (
    "CREATE TABLE bundles(hash TEXT PRIMARY KEY, source BLOB NOT NULL)",
    "CREATE TABLE pipelines("
    "uid TEXT PRIMARY KEY, name TEXT NOT NULL, hash TEXT NOT NULL, version INTEGER NOT NULL, deployed_at INTEGER NOT NULL)",
    "CREATE TABLE dead_letters("
    "pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, error TEXT NOT NULL, "
    "bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, PRIMARY KEY(pipeline, id))",
)
VERSIONS = (
    "CREATE TABLE versions("
    "uid TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, hash TEXT NOT NULL, deployed_at INTEGER NOT NULL, "
    "PRIMARY KEY(uid, version)) WITHOUT ROWID",
    # the earlier ones were not kept
    "INSERT INTO versions SELECT uid, version, name, hash, deployed_at FROM pipelines",
)
# What it takes to replay a dead letter, and `n`, which never comes twice: the place of a letter in
# a list.
LETTERS_TO_REPLAY = (
    "CREATE TABLE letters("
    "n INTEGER PRIMARY KEY AUTOINCREMENT, pipeline TEXT NOT NULL, id TEXT NOT NULL, swarm TEXT NOT NULL, data BLOB NOT NULL, "
    "error TEXT NOT NULL, bundle TEXT NOT NULL, buried_at INTEGER NOT NULL, agent TEXT NOT NULL, producer_id TEXT NOT NULL, "
    "hop TEXT NOT NULL, heard INTEGER NOT NULL, attempts INTEGER NOT NULL, entry TEXT NOT NULL, UNIQUE(pipeline, id))",
    "INSERT INTO letters SELECT NULL, old.*, '', '', '', 0, 1, id FROM dead_letters AS old ORDER BY buried_at, rowid",
    "DROP TABLE dead_letters",
    "ALTER TABLE letters RENAME TO dead_letters",
)
KEYS_AND_SESSIONS = (
    "CREATE TABLE keys("
    "id TEXT PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, scopes TEXT NOT NULL, pipelines TEXT NOT NULL, "
    "created_at INTEGER NOT NULL, expires_at INTEGER, revoked_at INTEGER)",
    "CREATE TABLE sessions(digest BLOB PRIMARY KEY, key TEXT NOT NULL, expires_at INTEGER NOT NULL)",
)
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    BUNDLES_AND_DEAD_LETTERS,
    VERSIONS,
    LETTERS_TO_REPLAY,
    KEYS_AND_SESSIONS,
)
