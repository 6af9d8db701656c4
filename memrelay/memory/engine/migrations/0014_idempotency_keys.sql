-- Idempotency keys of producers, as digests, with the answers to a repeated message or call, while
-- they are remembered. `answer` is compressed. A new key has the highest `n`, so the first rows are
-- about the oldest. `owner` is a pipeline's messages or calls.
CREATE TABLE idempotency_owners(
  n INTEGER PRIMARY KEY,
  pipeline TEXT NOT NULL,
  is_call INTEGER NOT NULL,
  UNIQUE(pipeline, is_call)
) STRICT;
CREATE TABLE idempotency_keys(
  n INTEGER PRIMARY KEY,
  digest BLOB NOT NULL,
  owner INTEGER NOT NULL,
  done_at INTEGER NOT NULL,
  answer BLOB NOT NULL
) STRICT;
INSERT INTO idempotency_owners(pipeline, is_call)
  SELECT DISTINCT substr(id, 1, instr(id, '/') - 1), instr(id, char(31)) > 0 FROM producer_ids;
INSERT INTO idempotency_keys(digest, owner, done_at, answer)
  SELECT digest_of_key(p.id), o.n, p.done_at, answer_of(p.outputs)
  FROM producer_ids AS p, idempotency_owners AS o
  WHERE o.pipeline = substr(p.id, 1, instr(p.id, '/') - 1) AND o.is_call = (instr(p.id, char(31)) > 0)
  ORDER BY p.done_at;
CREATE UNIQUE INDEX idempotency_keys_digest ON idempotency_keys(digest);
DROP TABLE producer_ids;
