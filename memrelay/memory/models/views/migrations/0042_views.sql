-- Declared views (docs/views.md): aggregates of records, kept in the transaction of each change.
-- `view` is JSON. `defined_views` has those of `views.define`.
CREATE TABLE defined_views(
  name TEXT NOT NULL PRIMARY KEY,
  view TEXT NOT NULL,
  changed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The views that bundles declare for the store, by pipeline. A deploy writes them.
CREATE TABLE declared_views(
  pipeline TEXT NOT NULL,
  name TEXT NOT NULL,
  view TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY(pipeline, name)
) STRICT, WITHOUT ROWID;

-- The views whose members are in the tables below, as they were when these were computed.
CREATE TABLE built_views(
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  view TEXT NOT NULL
) STRICT;

-- The records of each view. `part` is the value of its field `per`, `item` that of `latest`, and
-- `place` the order: a number or a text.
CREATE TABLE view_members(
  view INTEGER NOT NULL,
  part TEXT NOT NULL,
  item TEXT NOT NULL,
  place ANY NOT NULL,
  guid TEXT NOT NULL,
  PRIMARY KEY(view, part, item, place, guid)
) STRICT, WITHOUT ROWID;
CREATE INDEX view_members_guid ON view_members(guid);

-- How many records each part of a view has.
CREATE TABLE view_counts(
  view INTEGER NOT NULL,
  part TEXT NOT NULL,
  records INTEGER NOT NULL,
  PRIMARY KEY(view, part)
) STRICT, WITHOUT ROWID;
