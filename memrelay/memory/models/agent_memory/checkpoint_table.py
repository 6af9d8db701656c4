"""The tables of checkpoints: their rows, the parts of their values, and the writes after them."""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import orjson

from memrelay.memory.engine.models import load
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.errors import RecordDamaged

LATEST_ID = "latest"
# Larger values are compressed.
MAX_PLAIN = 1024
PLAIN, COMPRESSED = b"\0", b"\1"
# Metadata of LangGraph: the channels whose value needs the writes of earlier checkpoints.
COUNTERS = "counters_since_delta_snapshot"


class Checkpoint(NamedTuple):
    """A row of `checkpoints`. `channels` and `metadata` are JSON texts."""

    agent: str
    thread: str
    ns: str
    id: str
    # "" for none.
    parent: str
    type: str
    checkpoint: bytes
    metadata: str
    run: str
    # Unix ms
    created_at: int
    channels: str
    numbers: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return its primary key."""
        return self[:4]

    @property
    def mark(self) -> str:
        """Return a text that differs if the checkpoint is replaced."""
        return f"{self.id}:{zlib.crc32(self.numbers.encode()):08x}"


class Write(NamedTuple):
    """A row of `checkpoint_writes`. A special channel has a negative `idx`."""

    agent: str
    thread: str
    ns: str
    id: str
    task: str
    idx: int
    path: str
    channel: str
    type: str
    value: bytes


class Outline(NamedTuple):
    """A checkpoint without its data. `bytes` is the size of the checkpoint without its parts."""

    agent: str
    thread: str
    ns: str
    id: str
    parent: str
    metadata: str
    created_at: int
    channels: str
    numbers: str
    bytes: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Return its primary key."""
        return self[:4]

    @property
    def missing_channels(self) -> set[str]:
        """Return the channels whose value needs the writes of earlier checkpoints."""
        counted = orjson.loads(self.metadata).get(COUNTERS)
        names = set(counted) if isinstance(counted, dict) else set()
        return names - self.stored_channels

    @property
    def stored_channels(self) -> set[str]:
        """Return the channels that have a value."""
        return {name for name, *_ in orjson.loads(self.channels)}


# Admits a stored value. It is loaded in a store with policies.
ADMIT_STORED = "memrelay.memory.models.agent_memory.checkpoint_texts:admit_stored"
TABLES = ("checkpoints", "checkpoint_values", "checkpoint_writes")
COLUMNS = ", ".join(Checkpoint._fields)
FIND = f"SELECT {COLUMNS} FROM checkpoints WHERE agent = ? AND thread = ? AND ns = ? "
INSERT = f"INSERT OR REPLACE INTO checkpoints({COLUMNS}) VALUES ({', '.join('?' * 12)})"
INSERT_WRITE = (
    f"INSERT OR {{}} INTO checkpoint_writes({', '.join(Write._fields)}) "
    f"VALUES ({', '.join('?' * 10)})"
)
OUTLINES = f"SELECT {', '.join(Outline._fields[:-1])}, length(checkpoint) FROM checkpoints"
NEXT_NUMBER = "SELECT ifnull(max(n), 0) + 1 FROM checkpoint_values WHERE agent = ? AND thread = ?"
INSERT_VALUE = "INSERT INTO checkpoint_values(agent, thread, n, value) VALUES (?, ?, ?, ?)"
VALUES = (
    "SELECT n, value FROM checkpoint_values WHERE agent = ? AND thread = ? AND n BETWEEN ? AND ?"
)
DELETE_VALUES = "DELETE FROM checkpoint_values WHERE agent = ? AND thread = ? AND n BETWEEN ? AND ?"
NUMBERS = "SELECT n FROM checkpoint_values WHERE agent = ? AND thread = ?"
WRITES = (
    "SELECT agent, thread, ns, id, task, idx, path, channel, type, value FROM checkpoint_writes "
    "WHERE agent = ? AND thread = ? AND ns = ? AND id = ? ORDER BY path, task, idx"
)
PARENTS = "SELECT id, parent FROM checkpoints WHERE agent = ? AND thread = ? AND ns = ?"
SET_PARENT = (
    "UPDATE checkpoints SET parent = ? WHERE agent = ? AND thread = ? AND ns = ? AND id = ?"
)
VALUE_BYTES = (
    "SELECT ifnull(sum(length(value)), 0) FROM checkpoint_values "
    "WHERE agent = ? AND thread = ? AND n BETWEEN ? AND ?"
)
COPY_VALUES = (
    "INSERT INTO checkpoint_values(agent, thread, n, value) "
    "SELECT agent, ?, n + ?, value FROM checkpoint_values WHERE agent = ? AND thread = ?"
)
COPY_WRITES = (
    "INSERT OR REPLACE INTO checkpoint_writes(agent, thread, ns, id, task, idx, path, channel, "
    "type, value) SELECT agent, ?, ns, id, task, idx, path, channel, type, value "
    "FROM checkpoint_writes WHERE agent = ? AND thread = ?"
)
NEXT_AGENT = "SELECT min(agent) FROM {} WHERE agent > ?"
DELETE_CHECKPOINT, DELETE_WRITES = (
    f"DELETE FROM {table} WHERE agent = ? AND thread = ? AND ns = ? AND id = ?"
    for table in ("checkpoints", "checkpoint_writes")
)


class CheckpointTable(StoreTable):
    """Reads and writes checkpoints inside the store's open transaction."""

    def find(self, agent: str, thread: str, ns: str, ident: str) -> Checkpoint | None:
        """Return a checkpoint; for the id `latest` that with the highest id."""
        sql, key = f"{FIND}AND id = ?", [agent, thread, ns, ident]
        if ident == LATEST_ID:
            sql, key = f"{FIND}ORDER BY id DESC LIMIT 1", [agent, thread, ns]
        row = self._connection.execute(sql, key).fetchone()
        return Checkpoint(*row) if row else None

    def values(self, one: Checkpoint, first: int = 0, count: int | None = None) -> list[bytes]:
        """Return parts of a checkpoint as stored, in order; by default all. Raises
        RecordDamaged.
        """
        numbers = from_text(one.numbers)[first : None if count is None else first + count]
        parts: dict[int, bytes] = {}
        for first, last in group_runs(sorted(set(numbers))):
            parts.update(self._connection.execute(VALUES, (*one.key[:2], first, last)))
        if missing := len(set(numbers) - parts.keys()):
            raise RecordDamaged(
                f"checkpoint {one.id} of thread {one.thread!r} lacks {missing} of its values; "
                "restore a backup, or delete the checkpoint"
            )
        return [parts[number] for number in numbers]

    def writes(self, key: Sequence[str]) -> list[Write]:
        """Return the writes that follow the checkpoint with that key, in the order in which
        LangGraph applies them.
        """
        return [Write(*row) for row in self._connection.execute(WRITES, key)]

    def add_values(self, agent: str, thread: str, values: Sequence[bytes]) -> list[int]:
        """Store new parts and return their numbers. Raises PolicyStop."""
        if not values:
            return []
        if self._records.path.admit_texts:
            self._records.admit_texts("checkpoint", (), (agent, thread))
            admit = load(ADMIT_STORED)
            values = [admit(self._records, value) for value in values]
        first: int = self._connection.execute(NEXT_NUMBER, (agent, thread)).get
        numbers = list(range(first, first + len(values)))
        rows = [(agent, thread, n, value) for n, value in zip(numbers, values, strict=True)]
        self._connection.executemany(INSERT_VALUE, rows)
        return numbers

    def put(self, one: Checkpoint) -> None:
        """Insert a checkpoint, or replace the one with its key."""
        before = self.find(*one.key)
        self._connection.execute(INSERT, one)
        if before is not None and before.numbers != one.numbers:
            self.drop_unused(*one.key[:2])

    def replace(self, agent: str, thread: str, changed: Iterable[Checkpoint]) -> None:
        """Replace checkpoints of a thread, and delete all parts that none has."""
        self._connection.executemany(INSERT, changed)
        self.drop_unused(agent, thread)

    def put_writes(self, writes: Iterable[Write]) -> int:
        """Insert writes and return how many were stored. One with a negative `idx` replaces the
        earlier one; of the others the first is kept. Raises PolicyStop.
        """
        before = self._connection.total_changes()
        for one in writes:
            if self._records.path.admit_texts:
                one = one._replace(value=load(ADMIT_STORED)(self._records, one.value))
            how = "REPLACE" if one.idx < 0 else "IGNORE"
            self._connection.execute(INSERT_WRITE.format(how), one)
        return self._connection.total_changes() - before

    def agents(self) -> list[str]:
        """Return the agents with threads, sorted."""
        found: set[str] = set()
        for table in TABLES:
            agent = self._connection.execute(f"SELECT min(agent) FROM {table}").get
            while agent is not None:
                found.add(agent)
                agent = self._connection.execute(NEXT_AGENT.format(table), (agent,)).get
        return sorted(found)

    def threads(self, agent: str) -> list[str]:
        """Return the threads of an agent, sorted."""
        found: set[str] = set()
        for table in TABLES:
            sql = f"SELECT DISTINCT thread FROM {table} WHERE agent = ?"
            found.update(thread for (thread,) in self._connection.execute(sql, (agent,)))
        return sorted(found)

    def select(
        self,
        *,
        agents: Sequence[str],
        thread: str | None = None,
        ns: str | None = None,
        before: str = "",
    ) -> Iterator[Outline]:
        """Yield the outlines of checkpoints by id, the newest first. None stands for all threads
        or namespaces.
        """
        conditions = [f"agent IN ({', '.join('?' * len(agents))})"]
        values: list[str] = [*agents]
        for condition, value in (
            ("thread = ?", thread),
            ("ns = ?", ns),
            ("id < ?", before or None),
        ):
            if value is not None:
                conditions.append(condition)
                values.append(value)
        sql = f"{OUTLINES} WHERE {' AND '.join(conditions)} ORDER BY id DESC, agent, thread, ns"
        return (Outline(*row) for row in self._connection.execute(sql, values))

    def size(self, one: Outline) -> int:
        """Return the stored bytes of a checkpoint with its parts."""
        runs = group_runs(sorted(set(from_text(one.numbers))))
        keys = ((one.agent, one.thread, *run) for run in runs)
        sizes: list[int] = [self._connection.execute(VALUE_BYTES, key).get for key in keys]
        return one.bytes + sum(sizes)

    def delete(self, keys: Collection[tuple[str, str, str, str]]) -> int:
        """Delete checkpoints with their writes. Their children get their parents. Return how many
        existed.
        """
        groups: dict[tuple[str, str, str], set[str]] = {}
        for agent, thread, ns, ident in keys:
            groups.setdefault((agent, thread, ns), set()).add(ident)
        deleted = 0
        for group, gone in groups.items():
            parents = dict(self._connection.execute(PARENTS, group))
            links = [
                (_find_parent(parents, gone, ident), *group, ident)
                for ident, parent in parents.items()
                if ident not in gone and parent in gone
            ]
            self._connection.executemany(SET_PARENT, links)
            for statement in (DELETE_CHECKPOINT, DELETE_WRITES):
                self._connection.executemany(statement, [(*group, ident) for ident in gone])
            deleted += len(gone & parents.keys())
        for agent, thread in dict.fromkeys(group[:2] for group in groups):
            self.drop_unused(agent, thread)
        return deleted

    def delete_thread(self, agent: str, thread: str) -> int:
        """Delete a thread of an agent. Return how many checkpoints it had."""
        # Last `checkpoints`, whose rows are counted.
        for table in reversed(TABLES):
            sql = f"DELETE FROM {table} WHERE agent = ? AND thread = ?"
            self._connection.execute(sql, (agent, thread))
        deleted: int = self._connection.changes()
        return deleted

    def copy(self, agent: str, source: str, target: str) -> int:
        """Copy the checkpoints, parts and writes of a thread into another one. Return the number of
        checkpoints.
        """
        offset: int = self._connection.execute(NEXT_NUMBER, (agent, target)).get - 1
        self._connection.execute(COPY_VALUES, (target, offset, agent, source))
        self._connection.execute(COPY_WRITES, (target, agent, source))
        sql = f"SELECT {COLUMNS} FROM checkpoints WHERE agent = ? AND thread = ?"
        checkpoints = [Checkpoint(*row) for row in self._connection.execute(sql, (agent, source))]
        for one in checkpoints:
            numbers = [number + offset for number in from_text(one.numbers)]
            self._connection.execute(INSERT, one._replace(thread=target, numbers=to_text(numbers)))
        self.drop_unused(agent, target)
        return len(checkpoints)

    def of_runs(self, agents: Sequence[str], runs: Sequence[str]) -> list[Outline]:
        """Return the checkpoints that these runs made."""
        return self._select_in("run <> '' AND run", runs, agents)

    def with_ids(self, agents: Sequence[str], idents: Sequence[str]) -> list[Outline]:
        """Return the checkpoints with these ids, in all threads of the agents."""
        return self._select_in("id", idents, agents)

    def _select_in(
        self, column: str, values: Sequence[str], agents: Sequence[str]
    ) -> list[Outline]:
        """Return the checkpoints of the agents with one of these values."""
        listed, marks = (", ".join("?" * len(texts)) for texts in (values, agents))
        sql = f"{OUTLINES} WHERE {column} IN ({listed}) AND agent IN ({marks})"
        return [Outline(*row) for row in self._connection.execute(sql, (*values, *agents))]

    def drop_unused(self, agent: str, thread: str) -> None:
        """Delete the parts of a thread that no checkpoint has any more."""
        texts = self._connection.execute(
            "SELECT numbers FROM checkpoints WHERE agent = ? AND thread = ?", (agent, thread)
        )
        used = {number for (text,) in texts for number in from_text(text)}
        unused = [n for (n,) in self._connection.execute(NUMBERS, (agent, thread)) if n not in used]
        for first, last in group_runs(unused):
            self._connection.execute(DELETE_VALUES, (agent, thread, first, last))


def _find_parent(parents: dict[str, str], gone: set[str], ident: str) -> str:
    """Return the nearest ancestor that is not deleted, "" for none."""
    seen = set[str]()
    parent = parents[ident]
    while parent in gone and parent not in seen:
        seen.add(parent)
        parent = parents.get(parent, "")
    return "" if parent in gone else parent


def prune_thread(table: CheckpointTable, agent: str, thread: str, keep: int) -> int:
    """Keep the newest checkpoints of each namespace of a thread. Return how many were deleted.

    The value of a DeltaChannel is rebuilt from an earlier checkpoint and the writes since then, so
    those are kept too.
    """
    by_ns: dict[str, dict[str, Outline]] = {}
    for one in table.select(agents=[agent], thread=thread):
        by_ns.setdefault(one.ns, {})[one.id] = one
    old = []
    for outlines in by_ns.values():
        newest = list(outlines)[:keep]
        needed = set(newest).union(*(_list_needed(outlines, ident) for ident in newest))
        old += [one.key for one in outlines.values() if one.id not in needed]
    return table.delete(old)


def _list_needed(outlines: dict[str, Outline], ident: str) -> set[str]:
    """Return the ids of earlier checkpoints from which values of that one are rebuilt."""
    missing, needed = outlines[ident].missing_channels, set[str]()
    while missing and (ident := outlines[ident].parent) in outlines and ident not in needed:
        needed.add(ident)
        missing -= outlines[ident].stored_channels
    return needed


def pack(value: bytes) -> bytes:
    """Return a value as it is stored: a byte 0 and the value, or a byte 1 and compressed data."""
    if len(value) > MAX_PLAIN:
        packed = COMPRESSED + zlib.compress(value)
        if len(packed) <= len(value):
            return packed
    return PLAIN + value


def unpack(stored: bytes) -> bytes:
    """Return the value of stored bytes. Raises ValueError: they are no stored value."""
    kind, value = stored[:1], stored[1:]
    if kind == PLAIN:
        return value
    if kind != COMPRESSED:
        raise ValueError(f"a stored value must begin with a byte 0 or 1, not {kind!r}")
    try:
        return zlib.decompress(value)
    except zlib.error as error:
        raise ValueError(f"a stored value of {len(stored)} bytes is damaged: {error}") from error


def to_text(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as 1-40,43."""
    runs = group_runs(numbers)
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def from_text(text: str) -> list[int]:
    """Return the numbers of a text."""
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        first, _, last = run.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def group_runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) of each run of consecutive numbers, in order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ((first, last) for first, last in runs)
