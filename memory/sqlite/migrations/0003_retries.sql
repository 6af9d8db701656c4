-- Messages that are tried again later wait among the continuations, with the id that their producer gave them, and whether
-- they were heard on the channel already.
ALTER TABLE pending ADD COLUMN producer TEXT NOT NULL DEFAULT '';
ALTER TABLE pending ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;
