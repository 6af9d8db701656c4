-- Recipes and the sources that they read. Definitions, documents, nodes, instances, templates and
-- rule engines are records: their key is unique within kind and scope. SQLite uses the index only if
-- a query has the same two comparisons of the kind. Records of users that already have these kinds
-- get others; their checksum covered the kind.
UPDATE records SET kind = 'user.' || kind, crc = NULL WHERE kind >= 'recipe.' AND kind < 'recipe/';
UPDATE versions SET kind = 'user.' || kind, crc = NULL WHERE kind >= 'recipe.' AND kind < 'recipe/';
CREATE UNIQUE INDEX recipe_keys ON records(kind, scope, key) WHERE kind >= 'recipe.' AND kind < 'recipe/';
-- The pairs of key-value stores. `value` is JSON.
CREATE TABLE kv(
  instance TEXT NOT NULL,
  namespace TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (instance, namespace, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX kv_changes ON kv(instance, namespace, updated_at, key);
-- The events of event logs, which are only appended. `sequence` counts from 1 in each stream. `at` is
-- the time that the event names. `payload` and `metadata` are JSON.
CREATE TABLE events(
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  instance TEXT NOT NULL,
  stream TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  type TEXT NOT NULL,
  payload TEXT NOT NULL,
  metadata TEXT NOT NULL,
  at INTEGER NOT NULL,
  UNIQUE (instance, stream, sequence)
) STRICT;
CREATE INDEX events_times ON events(instance, at, row);
CREATE INDEX events_types ON events(instance, type, at, row);
CREATE INDEX events_streams ON events(instance, stream, at, row);
-- The edges of graphs, in the order in which they were added. Nodes are records.
CREATE TABLE edges(
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  instance TEXT NOT NULL,
  kind TEXT NOT NULL,
  from_node TEXT NOT NULL,
  to_node TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  UNIQUE (instance, id)
) STRICT;
CREATE INDEX edges_from ON edges(instance, from_node, row);
CREATE INDEX edges_to ON edges(instance, to_node, row);
-- The nodes of a graph by their kind.
CREATE INDEX node_kinds ON records(scope, json_extract(data, '$.kind')) WHERE kind = 'recipe.node';
-- The views of graphs: a view template bound to an instance.
CREATE TABLE views(
  id TEXT NOT NULL PRIMARY KEY,
  template TEXT NOT NULL,
  instance TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
