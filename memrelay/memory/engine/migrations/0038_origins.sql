-- Who or what has written, and how it came in (Origin in engine/origins.py). Each origin is here
-- once.
CREATE TABLE origins(
  id INTEGER PRIMARY KEY,
  actor TEXT NOT NULL,
  sender TEXT NOT NULL,
  profile TEXT NOT NULL,
  verdict TEXT NOT NULL,
  key TEXT NOT NULL,
  agent TEXT NOT NULL,
  model TEXT NOT NULL,
  UNIQUE(actor, sender, profile, verdict, key, agent, model)
) STRICT;
-- The origin of a state. A state from before this migration has 0.
ALTER TABLE records ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;
ALTER TABLE appended ADD COLUMN origin INTEGER NOT NULL DEFAULT 0;
-- The origin of the change that ended a state, and the sequence number of its input's entry, whose
-- id is `<changed_at>-<input>`. NULL for a change that no input made.
ALTER TABLE versions ADD COLUMN ended_by INTEGER NOT NULL DEFAULT 0;
ALTER TABLE versions ADD COLUMN input INTEGER;
