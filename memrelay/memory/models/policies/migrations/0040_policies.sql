-- Policies on what enters the store (docs/trust.md). `policy` is JSON.
-- `policies` has those of `policies.set`, in the order of `position`.
CREATE TABLE policies(
  position INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  policy TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT;

-- The policies that bundles declare for the store, by pipeline. A deploy writes them.
CREATE TABLE declared_policies(
  pipeline TEXT NOT NULL,
  name TEXT NOT NULL,
  position INTEGER NOT NULL,
  policy TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY(pipeline, name)
) STRICT, WITHOUT ROWID;

-- The key of the digests that stand for redacted values: one row.
CREATE TABLE policy_keys(
  id INTEGER PRIMARY KEY CHECK(id = 1),
  key BLOB NOT NULL
) STRICT;

-- The writes of a source in the present window of a limit, which ends at `ends_at` (Unix ms).
CREATE TABLE policy_limits(
  policy TEXT NOT NULL,
  source TEXT NOT NULL,
  ends_at INTEGER NOT NULL,
  writes INTEGER NOT NULL,
  PRIMARY KEY(policy, source)
) STRICT, WITHOUT ROWID;

-- How often each policy has acted, and the last verdicts. `guid` is "" without a record.
CREATE TABLE policy_counts(
  policy TEXT NOT NULL,
  action TEXT NOT NULL,
  total INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY(policy, action)
) STRICT, WITHOUT ROWID;
CREATE TABLE policy_verdicts(
  n INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  policy TEXT NOT NULL,
  action TEXT NOT NULL,
  guid TEXT NOT NULL,
  actor TEXT NOT NULL
) STRICT;
