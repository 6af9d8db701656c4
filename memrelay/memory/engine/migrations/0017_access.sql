-- Who may use which store of keyed items, in the home `stores` (memory/items/access.py). Times are
-- Unix ms. `grants` gives an agent a level of access to a store. `contexts` holds the agents that
-- take part in a chat or work for a user at present. `agent_settings` switches off the memory of an
-- agent, or a class of its stores; an agent without a row has all of them.
CREATE TABLE grants(
  store TEXT NOT NULL,
  grantee TEXT NOT NULL,
  level TEXT NOT NULL,
  granted_by TEXT NOT NULL,
  expires_at INTEGER,
  created_at INTEGER NOT NULL,
  PRIMARY KEY(store, grantee)
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_grantee ON grants(grantee, expires_at);
CREATE TABLE contexts(
  id TEXT NOT NULL,
  sort TEXT NOT NULL,
  agent TEXT NOT NULL,
  expires_at INTEGER,
  PRIMARY KEY(id, agent)
) STRICT, WITHOUT ROWID;
CREATE INDEX contexts_agent ON contexts(agent, expires_at);
CREATE TABLE agent_settings(
  agent TEXT NOT NULL PRIMARY KEY,
  enabled INTEGER NOT NULL,
  self INTEGER NOT NULL,
  chat INTEGER NOT NULL,
  user INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
