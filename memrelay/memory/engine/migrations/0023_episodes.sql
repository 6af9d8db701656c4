-- Episodes, steps and users of agents. The key of an episode, its execution, is unique within the
-- scope of its agent. A user has a unique canonical id (the key), telegram_id and email. SQLite uses
-- these indexes only if a query names the kind literally. Pages of episodes are ordered by the
-- creation, and the row decides between equal times. That index begins with the kind, because SQLite
-- prefers another index on the kind otherwise. Records of users that already have these kinds get
-- others; their checksum covered the kind.
UPDATE records SET kind = 'user.' || kind, crc = NULL
WHERE kind IN ('memory.episode', 'memory.step', 'memory.user');
UPDATE versions SET kind = 'user.' || kind, crc = NULL
WHERE kind IN ('memory.episode', 'memory.step', 'memory.user');
CREATE UNIQUE INDEX episode_keys ON records(scope, key) WHERE kind = 'memory.episode';
CREATE INDEX episode_creations ON records(kind, created_at, row, scope, owner)
WHERE kind = 'memory.episode';
CREATE INDEX episode_owners ON records(owner, created_at, row) WHERE kind = 'memory.episode';
CREATE INDEX open_episodes ON records(key)
WHERE kind = 'memory.episode' AND json_extract(data, '$.ended_at') IS NULL;
CREATE UNIQUE INDEX user_keys ON records(scope, key) WHERE kind = 'memory.user';
CREATE UNIQUE INDEX user_telegram_ids ON records(json_extract(data, '$.telegram_id'))
WHERE kind = 'memory.user';
CREATE UNIQUE INDEX user_emails ON records(json_extract(data, '$.email'))
WHERE kind = 'memory.user';
