"""Dead letters: messages that failed for good, stored as they arrived."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from memrelay.memory.control.database import ControlDatabase, ControlRows, Sql

# Letters that an erasure reads at once.
BATCH = 20
# Bytes of content that the dead letters of a pipeline may have.
CONTENT_BYTES = 64 << 20
# Letters that a pipeline may have.
MAX_LETTERS = 50_000
# The part of a bound that remains when it was exceeded, so that dead letters are seldom trimmed.
KEPT_SHARE = 0.9
# Characters of the reason that a dead letter without content keeps.
KEPT_REASON = 500
# Characters of the first line of an error, by which dead letters are grouped.
MAX_REASON = 300
# Characters at the end of a reason, where it names the agent.
END_OF_REASON = 500
# Ends the reason of a dead letter whose content was deleted.
WITHOUT_CONTENT = (
    " (the content was deleted: the dead letters of this pipeline exceeded "
    "worker.dead_letter_bytes)"
)


class DeadLetter(NamedTuple):
    """A message that failed for good, with the reason and everything that a replay needs."""

    pipeline: str
    # Id of the input: its first entry's, or a continuation's.
    id: str
    swarm: str
    data: bytes
    # Reason of the last failure.
    error: str
    # Hash of the bundle version under which it failed last.
    bundle: str
    # Time of the last failure, Unix ms.
    failed_at: int
    # Alias of the one agent that it is addressed to, "" for the swarm.
    agent: str = ""
    producer_id: str = ""
    # As received. It may not be a number.
    hop: str = ""
    # Whether the sender had already published it on the channel.
    published: bool = False
    # Number of attempts.
    attempts: int = 1
    # The stream entry of the input that brought it last.
    entry: str = ""
    # The trace context (W3C) that a replay continues, "" for none.
    traceparent: str = ""
    # How it came in, as the field `via` of its entry. "" if that is not known.
    via: str = ""


class Listed(NamedTuple):
    """A dead letter in a list, without its data, which may be long."""

    # Position at which the next page begins. It never changes.
    place: int
    pipeline: str
    id: str
    swarm: str
    agent: str
    error: str
    bundle: str
    attempts: int
    # Unix ms
    failed_at: int
    # Size of the data, bytes.
    size: int


def first_line(error: str) -> str:
    """Return the part of an error by which dead letters are grouped."""
    return error.partition("\n")[0][:MAX_REASON]


class DeadLetterGroup(NamedTuple):
    """The dead letters of a pipeline whose errors have the same first line, `reason`."""

    pipeline: str
    reason: str
    letters: int
    # Most attempts of one dead letter.
    attempts: int
    # Times of the oldest and the newest failure, Unix ms.
    first_at: int
    last_at: int
    # Position of the newest dead letter.
    place: int


class Trimmed(NamedTuple):
    """How many dead letters of a pipeline lost their content, and how many were deleted."""

    pipeline: str
    cut: int
    deleted: int


# In the order of DeadLetter.
_COLUMNS = (
    "pipeline, id, swarm, data, error, bundle, buried_at, agent, producer_id, hop, heard, "
    "attempts, entry, traceparent, via"
)
_MARKS = ", ".join("?" * len(DeadLetter._fields))
_LISTED_COLUMNS = "n, pipeline, id, swarm, agent, error, bundle, attempts, buried_at, length(data)"
# The first line of an error.
_REASON = f"substr(error, 1, min({MAX_REASON}, instr(error || '\n', '\n') - 1))"
_OF_GROUPS = (
    "(CAST(?1 AS TEXT) IS NULL OR pipeline IN (SELECT value FROM json_each(CAST(?1 AS TEXT)))) "
    f"AND (CAST(?2 AS TEXT) IS NULL OR {_REASON} = ?2)"
)
_IN_PIPELINE = "pipeline = ? AND id IN (SELECT value FROM json_each(CAST(? AS TEXT)))"


class DeadLetters(ControlRows):
    """The dead letters in the control plane. `database` is open."""

    def __init__(self, database: ControlDatabase) -> None:
        super().__init__(database)
        # By pipeline: the bytes and the number of its dead letters at the last count, and those
        # that this process has added since then.
        self._sizes: dict[str, _Size] = {}

    async def add(
        self, dead_letters: Sequence[DeadLetter], content_bytes: int = CONTENT_BYTES
    ) -> list[Trimmed]:
        """Store dead letters, all or none, and return what had to be trimmed for them.

        A dead letter that the same entry brings again stays as it is. Brought by another entry, it
        gets the newest reason, and the attempts are added.

        Beyond `content_bytes` in a pipeline, the oldest dead letters lose their content and keep
        everything else. Beyond MAX_LETTERS, the oldest dead letters are deleted.
        """
        bound = _Size(content_bytes, MAX_LETTERS)
        trimmed = []
        async with self._database.changing() as database:
            await database.change_many(
                f"INSERT INTO dead_letters({_COLUMNS}) VALUES ({_MARKS}) "
                "ON CONFLICT(pipeline, id) DO UPDATE SET error = excluded.error, "
                "bundle = excluded.bundle, buried_at = excluded.buried_at, "
                "entry = excluded.entry, attempts = dead_letters.attempts + excluded.attempts "
                "WHERE dead_letters.entry <> excluded.entry",
                dead_letters,
            )
            for uid, added in _measure_by_pipeline(dead_letters).items():
                before = self._sizes.get(uid)
                now = before.plus(*added) if before else await _measure(database, uid)
                if now.exceeds(bound):
                    trimmed.append(await _trim(database, uid, bound))
                    now = await _measure(database, uid)
                self._sizes[uid] = now
        return [one for one in trimmed if one.cut or one.deleted]

    async def find(self, uid: str, ident: str) -> DeadLetter | None:
        """Return one dead letter of a pipeline, None if it does not exist."""
        rows = await self._fetch(
            f"SELECT {_COLUMNS} FROM dead_letters WHERE pipeline = ? AND id = ?", (uid, ident)
        )
        return next(map(DeadLetter._make, rows), None)

    async def find_of_entry(self, uid: str, entry: str) -> Listed | None:
        """Return the first dead letter of an entry or of a later step of its cascade, or None."""
        # The id of a step begins with `<entry>.`.
        rows = await self._fetch(
            f"SELECT {_LISTED_COLUMNS} FROM dead_letters WHERE pipeline = ?1 "
            "AND (id = ?2 OR id > ?2 || '.' AND id < ?2 || '/') ORDER BY +n LIMIT 1",
            (uid, entry),
        )
        return next(map(Listed._make, rows), None)

    async def page(
        self,
        uids: Sequence[str] | None = None,
        *,
        reason: str | None = None,
        after: int = 0,
        limit: int,
    ) -> list[Listed]:
        """Return dead letters after a position, in the order in which they first arrived.

        `uids` None selects all pipelines, `reason` only the dead letters of these groups.
        """
        rows = await self._fetch(
            f"SELECT {_LISTED_COLUMNS} FROM dead_letters WHERE n > ?3 AND {_OF_GROUPS} "
            "ORDER BY n LIMIT ?4",
            (_to_json(uids), reason, after, limit),
        )
        return list(map(Listed._make, rows))

    async def groups(
        self,
        uids: Sequence[str] | None = None,
        *,
        reason: str | None = None,
        before: int = 2**63 - 1,
        limit: int,
    ) -> list[DeadLetterGroup]:
        """Return groups whose newest dead letter is before a position, the newest group first.

        `uids` None selects all pipelines, `reason` only one group of each.
        """
        rows = await self._fetch(
            f"SELECT pipeline, {_REASON} AS reason, count(*), max(attempts), min(buried_at), "
            f"max(buried_at), max(n) FROM dead_letters WHERE {_OF_GROUPS} "
            "GROUP BY 1, 2 HAVING max(n) < ?3 ORDER BY max(n) DESC LIMIT ?4",
            (_to_json(uids), reason, before, limit),
        )
        return list(map(DeadLetterGroup._make, rows))

    async def latest(self, uid: str, swarm: str, *, limit: int) -> list[Listed]:
        """Return the dead letters of a pipeline that were sent to a swarm, the newest first."""
        rows = await self._fetch(
            f"SELECT {_LISTED_COLUMNS} FROM dead_letters WHERE pipeline = ? AND swarm = ? "
            "ORDER BY +n DESC LIMIT ?",
            (uid, swarm, limit),
        )
        return list(map(Listed._make, rows))

    async def before(self, uid: str, failed_at: int, place: int, *, limit: int) -> list[Listed]:
        """Return the dead letters of a pipeline whose last failure was before a time (Unix ms), or
        at it and at a position before `place`. The latest failure comes first.
        """
        rows = await self._fetch(
            f"SELECT {_LISTED_COLUMNS} FROM dead_letters WHERE pipeline = ?1 "
            "AND (buried_at < ?2 OR buried_at = ?2 AND n < ?3) "
            "ORDER BY buried_at DESC, n DESC LIMIT ?4",
            (uid, failed_at, place, limit),
        )
        return list(map(Listed._make, rows))

    async def read_data(self, positions: Sequence[int], most_bytes: int) -> dict[int, bytes]:
        """Return data of at most `most_bytes` each by the positions of dead letters."""
        rows = await self._fetch(
            "SELECT n, data FROM dead_letters WHERE n IN "
            "(SELECT CAST(value AS BIGINT) FROM json_each(CAST(? AS TEXT))) "
            "AND length(data) <= ?",
            (json.dumps(positions), most_bytes),
        )
        return {int(n): data for n, data in rows}

    async def read_version(self) -> tuple[int, int]:
        """Return a value that changes with every change of a dead letter."""
        return await self._database.read_version()

    async def latest_errors(self, uid: str, bundle: str, limit: int) -> list[str]:
        """Return the ends of the newest dead letters' reasons under one version of a pipeline.

        `bundle` is the version's hash. An end has up to END_OF_REASON characters.
        """
        rows = await self._fetch(
            "SELECT error FROM dead_letters WHERE pipeline = ? AND bundle = ? "
            "ORDER BY n DESC LIMIT ?",
            (uid, bundle, limit),
        )
        return [error[-END_OF_REASON:] for (error,) in rows]

    async def among(self, uid: str, idents: Sequence[str]) -> set[str]:
        """Return the ids that are dead letters of a pipeline."""
        values = (uid, json.dumps(idents))
        rows = await self._fetch(f"SELECT id FROM dead_letters WHERE {_IN_PIPELINE}", values)
        return {ident for (ident,) in rows}

    async def remove(self, uid: str, idents: Sequence[str]) -> set[str]:
        """Delete dead letters of a pipeline and return the ids that existed."""
        async with self._database.changing() as database:
            rows = await database.fetch(
                f"DELETE FROM dead_letters WHERE {_IN_PIPELINE} RETURNING id",
                (uid, json.dumps(idents)),
            )
            return {ident for (ident,) in rows}

    async def erase(self, uids: Sequence[str], holds: Callable[[bytes], bool]) -> int:
        """Delete the dead letters of these pipelines whose data, error or idempotency key `holds`
        accepts. Return their number.
        """
        count = 0
        for uid in uids:
            after, matching = 0, list[str]()
            while rows := await self._fetch(
                "SELECT n, id, data, error, producer_id FROM dead_letters "
                "WHERE pipeline = ? AND n > ? ORDER BY n LIMIT ?",
                (uid, after, BATCH),
            ):
                matching += [
                    ident
                    for _, ident, data, error, key in rows
                    if any(map(holds, (data, error.encode(), key.encode())))
                ]
                after = rows[-1][0]
            count += len(await self.remove(uid, matching)) if matching else 0
        return count

    async def rewrite(self) -> None:
        """Rewrite the database, so that no deleted data remains in the file. Raises StoreBusy."""
        await self._database.rewrite()

    async def count(self) -> dict[str, int]:
        """Return the number of dead letters by pipeline, for pipelines that have any."""
        rows = await self._fetch("SELECT pipeline, count(*) FROM dead_letters GROUP BY pipeline")
        return {uid: int(count) for uid, count in rows}


class _Size(NamedTuple):
    """Bytes and number of letters."""

    content: int
    letters: int

    def plus(self, content: int, letters: int) -> "_Size":
        return _Size(self.content + content, self.letters + letters)

    def exceeds(self, bound: "_Size") -> bool:
        return self.content > bound.content or self.letters > bound.letters


def _measure_by_pipeline(dead_letters: Iterable[DeadLetter]) -> dict[str, _Size]:
    sizes: dict[str, _Size] = {}
    for one in dead_letters:
        size = sizes.get(one.pipeline, _Size(0, 0))
        sizes[one.pipeline] = size.plus(len(one.data), 1)
    return sizes


async def _measure(database: Sql, uid: str) -> _Size:
    (row,) = await database.fetch(
        "SELECT coalesce(sum(length(data)), 0), count(*) FROM dead_letters WHERE pipeline = ?",
        (uid,),
    )
    return _Size(*map(int, row))


async def _trim(database: Sql, uid: str, bound: _Size) -> Trimmed:
    """Cut and delete the oldest dead letters that exceed a bound, if they still do."""
    size, cut, deleted = await _measure(database, uid), 0, 0
    if size.letters > bound.letters:
        most = int(bound.letters * KEPT_SHARE)
        deleted = await database.change(
            "DELETE FROM dead_letters WHERE n IN (SELECT n FROM dead_letters WHERE pipeline = ? "
            "ORDER BY n LIMIT ?)",
            (uid, size.letters - most),
        )
        size = await _measure(database, uid)
    if size.content > bound.content:
        cut = await database.change(
            # `newer` is the content of a dead letter and of all that are newer.
            "UPDATE dead_letters SET data = ?5, error = substr(error, 1, ?1) || ?2 WHERE n IN "
            "(SELECT n FROM (SELECT n, length(data) AS size, sum(length(data)) "
            "OVER (ORDER BY n DESC) AS newer FROM dead_letters WHERE pipeline = ?3) AS ages "
            "WHERE newer > ?4 AND size > 0)",
            (KEPT_REASON, WITHOUT_CONTENT, uid, int(bound.content * KEPT_SHARE), b""),
        )
    return Trimmed(uid, cut, deleted)


def _to_json(uids: Sequence[str] | None) -> str | None:
    return None if uids is None else json.dumps(uids)
