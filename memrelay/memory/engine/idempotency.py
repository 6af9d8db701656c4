"""The idempotency keys of producers, with the answers to repeated messages and calls.

Many millions may be remembered at once. So a row has a digest of the key, and only the answer,
compressed: about 130 bytes for a short answer.
"""

import zlib
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import apsw
import msgspec

# Prefix of the keys of calls. No id of a message contains it.
CALL_KEY_PREFIX = "\x1f"
DIGEST_BYTES = 16
PAGE_ROWS = 5000
# Rows that one commit deletes at least, if they have expired.
MOST_EXPIRED = 64
# Text that is frequent in answers, the most frequent last. All stored answers depend on it: a
# change needs a migration.
FREQUENT = (
    b'{"error":{"code":"refused","detail":"no record has the guid \'not_found","key_reused"'
    b'{"output":{"deleted":1}}{"results":[],"total":{"action":"created","updated","skipped",'
    b'"entry":{"id":"mem_","memory_id":"mem_","project_id":"","name":"","description":null,'
    b'"tags":null,"metadata":{},"source_type":"agent","score":'
    b'{"output":{"guid":"01a2104f-","scope":"instances//memories","kind":"observation","content":"'
    b'","source":"http","tags":[],"created_at":"2026-12-01T10:00:00.000Z",'
    b'"updated_at":"2026-12-01T10:00:00.000Z","expires_at":null,"key":null,"owner":null,"data":{},'
    b'"in_context":false,"thread":null,"seq":null,"version":"19a2"}}'
    b'memory_appendmemory_searchmemory_readmemory_deletememory_turntext/plain"}]}","created":true}}'
    b'{"from":"memory_write","id":"me","args":[{"username":"memory_write",'
    b'"text":"{\\"guid\\":\\"01a2-7000-8\\"}","timestamp":17,"type":"application/json"}]}'
    b"\x96\xaf17-0\x91\x93\x02\xa4chat\xc4\xc4\x00\x00\x90\x90"
)
INSERT = (
    "INSERT OR IGNORE INTO idempotency_keys(digest, owner, done_at, answer) VALUES (?, ?, ?, ?)"
)
SELECT = (
    "SELECT k.digest, o.pipeline, o.is_call, k.done_at, k.answer "
    "FROM idempotency_keys AS k JOIN idempotency_owners AS o ON o.n = k.owner "
    "WHERE o.pipeline = ? AND o.is_call <= ? LIMIT ?"
)
FORGET_OWNERS = "DELETE FROM idempotency_owners WHERE n NOT IN (SELECT owner FROM idempotency_keys)"
ADD_OWNER = "INSERT OR IGNORE INTO idempotency_owners(pipeline, is_call) VALUES (?, ?)"
FIND_OWNER = "SELECT n FROM idempotency_owners WHERE pipeline = ? AND is_call = ?"
HAS_OWNER = "SELECT 1 FROM idempotency_owners WHERE pipeline = ? AND is_call <= ?"
OLDEST = "SELECT done_at FROM idempotency_keys ORDER BY n LIMIT 1"
EXPIRE = (
    "DELETE FROM idempotency_keys WHERE done_at < ? "
    "AND n IN (SELECT n FROM idempotency_keys ORDER BY n LIMIT ?)"
)


class ProducerKey(NamedTuple):
    """An idempotency key of a message, or of the call of an operation."""

    pipeline: str
    id: str
    is_call: bool

    @property
    def digest(self) -> bytes:
        """The digest under which stores remember the key."""
        return digest_of_key(f"{self.pipeline}/{self.id}")


class StoredKey(NamedTuple):
    """A key as it is stored. `done_at` is Unix ms, and `answer` is compressed."""

    digest: bytes
    pipeline: str
    is_call: bool
    done_at: int
    answer: bytes


class IdempotencyKeys:
    """The keys of one store, read and written inside its open transaction.

    New keys are inserted with the commit.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._new: dict[bytes, StoredKey] = {}
        self._owners: dict[tuple[str, bool], int] = {}
        self._expired_before = 0

    def reset(self) -> None:
        """Drop the keys that were not committed."""
        self._new.clear()
        self._owners.clear()
        self._expired_before = 0

    def find(self, digest: bytes) -> bytes | None:
        """Return the answer under a key, None if the key is unknown."""
        if (new := self._new.get(digest)) is not None:
            return unpack(new.answer)
        found = self._connection.execute(
            "SELECT answer FROM idempotency_keys WHERE digest = ?", (digest,)
        ).get
        return None if found is None else unpack(found)

    def add(self, key: ProducerKey, answer: bytes, done_at: int) -> None:
        """Remember a key with its answer, unless it is known."""
        row = StoredKey(key.digest, key.pipeline, key.is_call, done_at, pack(answer))
        self._new.setdefault(row.digest, row)

    def expire(self, before_ms: int) -> None:
        """Forget keys from before that time with the commit; the rest of many with later ones."""
        self._expired_before = before_ms

    def keep_since(self, since_ms: int) -> None:
        """Let this commit forget no key from that time or later."""
        self._expired_before = min(self._expired_before, since_ms)

    def complete(self) -> None:
        """Insert the new keys and delete expired ones, before the commit."""
        count = len(self._new)
        if count:
            self.take_in(self._new.values())
            self._new.clear()
        if self._expired_before:
            oldest = self._connection.execute(OLDEST).get
            if oldest is not None and oldest < self._expired_before:
                most = max(MOST_EXPIRED, 2 * count)
                self._connection.execute(EXPIRE, (self._expired_before, most))
            self._expired_before = 0

    def list_some(self, pipeline: str, *, with_calls: bool) -> list[StoredKey]:
        """Return some committed keys of a pipeline: of its messages, or also of its calls."""
        # Most stores have no key of that sort, and without this check the next query reads all.
        if self._connection.execute(HAS_OWNER, (pipeline, with_calls)).get is None:
            return []
        rows = self._connection.execute(SELECT, (pipeline, with_calls, PAGE_ROWS))
        return [StoredKey._make(row) for row in rows]

    def take_in(self, keys: Iterable[StoredKey]) -> None:
        """Insert keys."""
        rows = [
            (key.digest, self._owner_of(key.pipeline, key.is_call), key.done_at, key.answer)
            for key in keys
        ]
        self._connection.executemany(INSERT, rows)

    def forget(self, keys: Sequence[StoredKey]) -> None:
        """Delete keys that another store has now, and owners that have no more keys."""
        run_many = self._connection.executemany
        run_many("DELETE FROM idempotency_keys WHERE digest = ?", [(key.digest,) for key in keys])
        if len(keys) < PAGE_ROWS:  # the last page: the search for owners reads all keys
            self._connection.execute(FORGET_OWNERS)
        self._owners.clear()

    def _owner_of(self, pipeline: str, is_call: bool) -> int:
        """Return the number of an owner, which is inserted if it is new."""
        known = self._owners.get((pipeline, is_call))
        if known is None:
            run, owner = self._connection.execute, (pipeline, is_call)
            run(ADD_OWNER, owner)
            known = self._owners[owner] = int(run(FIND_OWNER, owner).get)
        return known


def pack(answer: bytes) -> bytes:
    """Compress an answer.

    A small window costs 5 µs for a short answer. The default one takes 268 kB for each, and 50 µs.
    """
    deflate = zlib.compressobj(1, zlib.DEFLATED, -12, 2, zlib.Z_DEFAULT_STRATEGY, FREQUENT)
    return deflate.compress(answer) + deflate.flush()


def unpack(packed: bytes) -> bytes:
    """Return a compressed answer."""
    return zlib.decompressobj(-15, FREQUENT).decompress(packed)


def digest_of_key(text: str) -> bytes:
    """Return the digest of `<pipeline>/<id>`."""
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()


def register_key_functions(connection: apsw.Connection) -> None:
    """Register the SQL functions of migration 0014."""

    def digest(*text: Any) -> bytes:
        return digest_of_key(str(text[0]))

    def answer(*outputs: Any) -> bytes:
        return pack(_to_answer(bytes(outputs[0])))

    connection.create_scalar_function("digest_of_key", digest, 1, deterministic=True)
    connection.create_scalar_function("answer_of", answer, 1, deterministic=True)


def _to_answer(outputs: bytes) -> bytes:
    """Return the answer in the outputs of an input, as `worker.run.outcome` stores it."""
    ident, _, results, messages, *rest = msgspec.msgpack.decode(outputs)
    kept = [(number, *messages[number]) for number in results]
    public = [
        swarm[0]
        for number, (swarm, _) in enumerate(messages)
        if isinstance(swarm, list) and number not in results
    ]
    answer = rest[0] if rest else b""
    call_digest = rest[1] if len(rest) > 1 else 0
    return msgspec.msgpack.encode((ident, kept, answer, call_digest, public, []))
