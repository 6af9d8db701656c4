"""The figures of the last day and week: the file `figures.db` in the memory root.

It has one-minute steps of a day and ten-minute steps of a week, in chunks of compressed JSON. Any
program may delete it: the next write creates it again. It never grows beyond MAX_BYTES.
"""

import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from memrelay.memory.errors import StoreBroken, StoreBusy

NAME = "figures.db"
MAX_BYTES = 2_000_000
PAGE_BYTES = 4096
# Another number begins a new file.
SCHEMA = 1
LOCKED_S = 1.0
# Chunks that are dropped at once, oldest first, if the file is full, and how often.
DROPPED_CHUNKS, MAX_DROPS = 64, 20
MAX_MARKS = 500
DIGITS = 4
DAY_S = 86_400
STATEMENTS = (
    "CREATE TABLE IF NOT EXISTS chunks(span TEXT, series TEXT, at INTEGER, steps BLOB NOT NULL, "
    "PRIMARY KEY(span, series, at)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS marks(at INTEGER, kind TEXT, subject TEXT, "
    "PRIMARY KEY(at, kind, subject)) WITHOUT ROWID",
    f"PRAGMA user_version = {SCHEMA}",
)


class Span(NamedTuple):
    """How much is kept, in steps of so many seconds, and the seconds that a chunk has."""

    length_s: int
    step_s: int
    chunk_s: int


SPANS = {"day": Span(DAY_S, 60, 3_600), "week": Span(7 * DAY_S, 600, 21_600)}
# The figures, and how two of the same step are merged.
FIGURES: dict[str, Callable[[float, float], float]] = {
    # Counts and durations of the step. `seconds` is the recorded part of it.
    **dict.fromkeys(("seconds", "done", "dead", "changes", "searches"), float.__add__),
    **dict.fromkeys(("delivered", "undelivered"), float.__add__),
    **dict.fromkeys(("unserved_s", "paused_s", "bus_down_s"), float.__add__),
    # The highest, or lowest, value within the step.
    **dict.fromkeys(("waiting", "oldest_s", "p95_s", "delivery_p95_s"), max),
    **dict.fromkeys(("store_bytes", "wal_bytes", "vectors_todo", "loop_lag_ms"), max),
    **dict.fromkeys(("bus_memory_bytes",), max),
    **dict.fromkeys(("disk_free_bytes",), min),
    # Counts of newer versions, at the end: an older step has no value for them.
    **dict.fromkeys(("unsent", "refused"), float.__add__),
}
# The values of a step by figure. An unknown figure is missing.
Step = Mapping[str, float]
# Steps by the Unix time in seconds at which their minute began, and by series.
Minutes = Mapping[int, Mapping[str, Step]]


class Mark(NamedTuple):
    """An event at a time in Unix seconds: `restart` of a worker or server, or `backup`."""

    at: int
    kind: str
    subject: str


def merge(one: Step, other: Step) -> dict[str, float]:
    """Return the figures of two parts of a step."""
    merged = {**one, **other}
    for name in one.keys() & other.keys():
        merged[name] = FIGURES[name](float(one[name]), float(other[name]))
    return merged


class FiguresFile:
    """Reads and writes the file. Each call opens it, so it may be replaced or deleted at any time.

    The methods block, and raise StoreBusy and StoreBroken. A damaged file is deleted.
    """

    def __init__(self, root: Path) -> None:
        self.path = root / NAME

    def add(self, minutes: Minutes, marks: Iterable[Mark] = ()) -> None:
        """Merge the figures of minutes into the spans, and add marks."""
        with self._opened("rwc") as database:
            self._prepare(database)
            for _ in range(MAX_DROPS):
                if _write(database, minutes, list(marks)):
                    return
                _drop_oldest(database)
            raise StoreBusy(f"{self.path}: it is full, or its disk is")

    def read(self, span: str, series: str, since: int) -> list[tuple[int, Step]]:
        """Return the steps of a series from a time on, each with its time. All in Unix seconds."""
        kept = SPANS[span]
        if not self.path.exists():
            return []
        with self._opened("rw") as database:
            rows = database.execute(
                "SELECT at, steps FROM chunks WHERE span = ? AND series = ? AND at > ? ORDER BY at",
                (span, series, since - kept.chunk_s),
            ).fetchall()
            found = [(at + offset, step) for at, data in rows for offset, step in _unpack(data)]
        return [(at, step) for at, step in found if at >= since]

    def read_marks(self, since: int) -> list[Mark]:
        """Return the marks from a time on, in their order."""
        if not self.path.exists():
            return []
        with self._opened("rw") as database:
            rows = database.execute(
                "SELECT at, kind, subject FROM marks WHERE at >= ? ORDER BY at", (since,)
            ).fetchall()
        return [Mark(*row) for row in rows]

    def list_series(self) -> list[str]:
        """Return the names of the series."""
        if not self.path.exists():
            return []
        with self._opened("rw") as database:
            rows = database.execute("SELECT DISTINCT series FROM chunks").fetchall()
        return [name for (name,) in rows]

    def _prepare(self, database: sqlite3.Connection) -> None:
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, SCHEMA):
            self._delete()
            raise StoreBroken(f"{self.path} has another schema ({version}); it starts again empty")
        database.execute(f"PRAGMA max_page_count = {MAX_BYTES // PAGE_BYTES}")
        if version == 0:
            for statement in STATEMENTS:
                database.execute(statement)

    @contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        """Open the file. `rwc` creates it if needed."""
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            opened = sqlite3.connect(uri, uri=True, timeout=LOCKED_S, isolation_level=None)
            with closing(opened) as database:
                database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                yield database
        except sqlite3.OperationalError as error:
            raise StoreBusy(f"{self.path}: {error}") from error
        except (sqlite3.DatabaseError, zlib.error, ValueError) as error:
            self._delete()
            raise StoreBroken(f"{self.path} was damaged and starts again empty: {error}") from error

    def _delete(self) -> None:
        for suffix in ("", "-journal"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def _write(database: sqlite3.Connection, minutes: Minutes, marks: Sequence[Mark]) -> bool:
    """Return whether there was room for the figures."""
    try:
        _write_all(database, minutes, marks)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        return False
    return True


def _write_all(database: sqlite3.Connection, minutes: Minutes, marks: Sequence[Mark]) -> None:
    now = max(minutes, default=0)
    with _transaction(database):
        for span, kept in SPANS.items():
            database.execute(
                "DELETE FROM chunks WHERE span = ? AND at <= ?",
                (span, now - kept.length_s - kept.chunk_s),
            )
            for key, steps in _group(minutes, kept).items():
                _merge_into(database, (span, *key), steps)
        database.executemany("INSERT OR IGNORE INTO marks VALUES (?, ?, ?)", marks)
        database.execute("DELETE FROM marks WHERE at < ?", (now - SPANS["week"].length_s,))
        database.execute(
            "DELETE FROM marks WHERE at < (SELECT at FROM marks ORDER BY at DESC LIMIT 1 OFFSET ?)",
            (MAX_MARKS - 1,),
        )


def _group(minutes: Minutes, kept: Span) -> dict[tuple[str, int], dict[int, Step]]:
    """Return the steps of each chunk, which is a series and a time, by their offsets."""
    chunks = defaultdict[tuple[str, int], dict[int, Step]](dict)
    for at, by_series in minutes.items():
        start, offset = at - at % kept.chunk_s, at % kept.chunk_s // kept.step_s * kept.step_s
        for series, step in by_series.items():
            steps = chunks[series, start]
            steps[offset] = merge(steps.get(offset, {}), step)
    return chunks


def _merge_into(
    database: sqlite3.Connection, key: tuple[str, str, int], steps: Mapping[int, Step]
) -> None:
    """Merge steps into the chunk of a span, a series and a time."""
    row = database.execute(
        "SELECT steps FROM chunks WHERE span = ? AND series = ? AND at = ?", key
    ).fetchone()
    known: dict[int, Step] = dict(_unpack(row[0])) if row else {}
    for offset, step in steps.items():
        known[offset] = merge(known.get(offset, {}), step)
    database.execute("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?)", (*key, _pack(known)))


def _drop_oldest(database: sqlite3.Connection) -> None:
    """Delete the oldest chunks."""
    database.execute(
        "DELETE FROM chunks WHERE (span, series, at) IN "
        "(SELECT span, series, at FROM chunks ORDER BY at LIMIT ?)",
        (DROPPED_CHUNKS,),
    )


@contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    finally:
        # A full disk may have ended it already.
        if database.in_transaction:
            database.execute("ROLLBACK")


def _pack(steps: Mapping[int, Step]) -> bytes:
    rows = [
        [offset, *(_round(step.get(name)) for name in FIGURES)]
        for offset, step in sorted(steps.items())
    ]
    return zlib.compress(orjson.dumps(rows))


def _unpack(data: bytes) -> list[tuple[int, dict[str, float]]]:
    return [
        (offset, {name: one for name, one in zip(FIGURES, row, strict=False) if one is not None})
        for offset, *row in orjson.loads(zlib.decompress(data))
    ]


def _round(value: float | None) -> float | None:
    """Return a value with few digits, which is enough for a chart and half as long."""
    if value is None:
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short
