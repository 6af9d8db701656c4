-- Facts and procedures of agents: their key is unique within a scope. SQLite uses these indexes only
-- if a query names the kind literally. A second index serves pages of facts by the last change, with
-- the row between equal times; SQLite prefers another index on the kind unless the kind is the first
-- column. Pages of procedures, which are few, are sorted: each index here costs every insert 1 %.
-- The text of a fact is its key and its value in small letters, with the character 31 between them.
-- Facts with other letters than ASCII have it in `data.folded`, without accents. A search reads only
-- the index of the texts until it knows the best facts, for which the index needs the kind, and CAST
-- around JSON functions. Records of users that already have these kinds get others; their checksum
-- covered the kind.
UPDATE records SET kind = 'user.' || kind, crc = NULL WHERE kind IN ('memory.fact', 'memory.procedure');
UPDATE versions SET kind = 'user.' || kind, crc = NULL WHERE kind IN ('memory.fact', 'memory.procedure');
CREATE UNIQUE INDEX fact_keys ON records(scope, key) WHERE kind = 'memory.fact';
CREATE INDEX fact_changes ON records(kind, updated_at, row, scope) WHERE kind = 'memory.fact';
CREATE INDEX fact_texts ON records(
  kind,
  scope,
  CAST(ifnull(json_extract(data,'$.folded'), lower(key || char(31) || substr(content, length(key) + 3))) AS TEXT),
  updated_at,
  CAST(json_extract(data,'$.base') AS REAL),
  guid
) WHERE kind = 'memory.fact';
CREATE UNIQUE INDEX procedure_keys ON records(scope, key) WHERE kind = 'memory.procedure';
-- Contradicted facts, which are few.
CREATE INDEX tallies_bad ON tallies(guid, good, bad) WHERE bad > 0;
