-- Items of LangGraph stores: their key is unique within a scope. The second index serves pages by the
-- newest change. SQLite uses both only if a query names the kind literally, and prefers an index on
-- the kind unless the kind is their first column. Records of users that already have this kind get
-- another one; their checksum covered the kind.
UPDATE records SET kind = 'user.memory.item', crc = NULL WHERE kind = 'memory.item';
CREATE UNIQUE INDEX langgraph_items ON records(kind, scope, key) WHERE kind = 'memory.item';
CREATE INDEX langgraph_items_changed ON records(kind, updated_at, row, scope)
WHERE kind = 'memory.item';
