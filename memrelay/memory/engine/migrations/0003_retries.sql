-- Messages to retry later are stored with the continuations. Each has the idempotency key of its
-- producer, and whether it was already published on the channel.
ALTER TABLE pending ADD COLUMN producer TEXT NOT NULL DEFAULT '';
ALTER TABLE pending ADD COLUMN heard INTEGER NOT NULL DEFAULT 0;
