"""The journals of stores in PostgreSQL, for one thread: every call waits for the server."""

import secrets
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

import psycopg
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from psycopg import Connection, RawCursor

from memrelay.memory.engine.journal.patches import Patch, Position
from memrelay.memory.engine.journal.tables import (
    ADD_KEY,
    CREATE,
    FENCED,
    LOCK,
    LOOK,
    MIGRATIONS,
    SEIZE,
    TAKE_OVER,
)
from memrelay.memory.errors import StoreBroken, StoreBusy, StoreFenced
from memrelay.memory.postgres import END_SILENT_TRANSACTIONS, OPTIONS, SCHEMA, describe

Value = TypeVar("Value")
# A statement that takes longer counts as lost.
TIMEOUT_S = 10.0
APPEND_COMMIT = b"SELECT append_commit($1, $2, $3, $4, $5, $6)"
KEY_BYTES, NONCE_BYTES = 32, 12
# Rows that are read together.
ROWS_TOGETHER = 256


class Entry(NamedTuple):
    """The row of a store in PostgreSQL. See tables.py."""

    epoch: int
    generation: int
    n: int
    mark: str
    schema: int
    snapshot: int
    snapshot_mark: str
    upload: str
    bytes: int

    @property
    def position(self) -> Position:
        """Return the position of a file with all commits."""
        return Position(self.generation, self.n, self.mark)


class Commit(NamedTuple):
    """The next commit of a store by the owner with an epoch."""

    store: str
    epoch: int
    generation: int
    patch: Patch


class Upload(NamedTuple):
    """A complete upload of a store, by the owner with an epoch. `at` is the position in the file.

    `schema` is the schema of the file.
    """

    store: str
    epoch: int
    ident: str
    at: Position
    schema: int


class _Bounded(Connection[Any]):
    """A connection whose statements end after a time, also if the server is frozen."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        return super().wait(gen, interval, TIMEOUT_S if timeout is None else timeout)


class PostgresJournals:
    """The journals at `url`. The connection is opened at its first use, and again after it broke.

    Every method raises StoreBusy: the server cannot be reached, and the outcome may be unknown.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Connection[Any] | None = None
        self._ciphers: dict[tuple[str, int], AESGCM] = {}

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def look(self, store: str) -> Entry | None:
        """Return what is known about a store; None for a store without a journal."""
        rows = self._fetch(LOOK, (store,))
        return Entry._make(rows[0]) if rows else None

    def take_over(self, store: str, lease: int, known: int, schema: int) -> Entry:
        """Own a store from now on, and return its entry, which is created if needed.

        `lease` is the epoch that the bus has issued. An owner that has the store keeps its `known`
        epoch, 0 for none. `schema` is that of a new store. Raises StoreFenced.
        """
        with self._guarded(store) as connection, connection.transaction():
            cursor = RawCursor(connection)
            row = cursor.execute(TAKE_OVER.encode(), (store, lease, known)).fetchone()
            return Entry._make(row or _create(cursor, store, lease, schema))

    def seize(self, store: str, schema: int) -> Entry:
        """Take a store from its owner, who finds that out at the next commit."""
        with self._guarded(store) as connection, connection.transaction():
            cursor = RawCursor(connection)
            row = cursor.execute(SEIZE.encode(), (store,)).fetchone()
            return Entry._make(row or _create(cursor, store, 0, schema))

    def append(self, commits: Sequence[Commit]) -> list[int]:
        """Append the next commits of several stores, all or none, and return their stored bytes.

        Raises StoreFenced.
        """
        rows = [
            (
                *(one.store, one.epoch, one.patch.n, one.patch.schema, one.patch.mark),
                self._encrypt(one.store, one.generation, one.patch.changes),
            )
            for one in commits
        ]
        with self._guarded(commits[0].store) as connection, ExitStack() as transaction:
            if len(rows) > 1:
                transaction.enter_context(connection.transaction())
            cursor = RawCursor(connection)
            for row in rows:
                cursor.execute(APPEND_COMMIT, row)
        return [len(row[-1]) for row in rows]

    def mark_at(self, store: str, n: int) -> str:
        """Return the mark of a commit; "" if the journal no longer has it."""
        rows = self._fetch("SELECT mark FROM journal WHERE store = $1 AND n = $2", (store, n))
        return str(rows[0][0]) if rows else ""

    def patches(self, store: str, generation: int, after: int) -> Iterator[Patch]:
        """Yield the patches after a commit, in order. A missing one ends them."""
        sql = (
            "SELECT n, mark, schema, patch FROM journal WHERE store = $1 AND n > $2 "
            f"ORDER BY n LIMIT {ROWS_TOGETHER}"
        )
        while rows := self._fetch(sql, (store, after)):
            for n, mark, schema, data in rows:
                if n != after + 1:
                    return
                yield Patch(n, mark, schema, self._decrypt(store, generation, data))
                after = n

    def names(self, folder: str) -> list[str]:
        """Return the stores below a folder of the memory root, "" for the root."""
        # "0" follows "/" in the order of the index.
        first, last = (f"{folder}/", f"{folder}0") if folder else ("", "\x7f")
        rows = self._fetch(
            "SELECT store FROM stores WHERE store > $1 AND store < $2", (first, last)
        )
        return [name for (name,) in rows]

    def upload(self, store: str, key: tuple[int, bytes], parts: Iterable[bytes]) -> str:
        """Store the parts of a snapshot, and return the id of the upload.

        `key` is a generation and its key. No key means the one that is known.
        """
        ident, (generation, secret) = secrets.token_hex(8), key
        cipher = AESGCM(secret) if secret else self._cipher(store, generation)
        for number, part in enumerate(parts):
            self._fetch(
                "INSERT INTO snapshots VALUES ($1, $2, $3, $4)",
                (store, ident, number, _seal(cipher, part)),
            )
        return ident

    def complete_snapshot(self, made: Upload) -> None:
        """Make an upload the snapshot of its store, and delete older commits.

        Raises StoreFenced.
        """
        self._fetch(
            "SELECT complete_snapshot($1, $2, $3, $4, $5, $6)",
            (made.store, made.epoch, made.at.generation, made.ident, made.at.n, made.at.mark),
            made.store,
        )

    def begin_generation(self, made: Upload, key: bytes) -> None:
        """Make an upload, with that key, the only content of the generation at its position.

        The key of the earlier generation is destroyed. Raises StoreFenced.
        """
        self._fetch(
            "SELECT begin_generation($1, $2, $3, $4, $5, $6, $7, $8)",
            (made.store, made.epoch, *made.at, made.schema, made.ident, key),
            made.store,
        )
        self._fetch("VACUUM generations")

    def snapshot(self, store: str, entry: Entry) -> Iterator[bytes]:
        """Yield the parts of the snapshot of a store."""
        number, sql = 0, "SELECT data FROM snapshots WHERE store = $1 AND upload = $2 AND part = $3"
        while rows := self._fetch(sql, (store, entry.upload, number)):
            yield self._decrypt(store, entry.generation, rows[0][0])
            number += 1

    def _encrypt(self, store: str, generation: int, data: bytes) -> bytes:
        return _seal(self._cipher(store, generation), data)

    def _decrypt(self, store: str, generation: int, data: bytes) -> bytes:
        try:
            cipher = self._cipher(store, generation)
            return zlib.decompress(cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], None))
        except InvalidTag as error:
            raise StoreBroken(f"the journal of {store} was changed in PostgreSQL") from error

    def _cipher(self, store: str, generation: int) -> AESGCM:
        known = (store, generation)
        if known not in self._ciphers:
            rows = self._fetch(
                "SELECT key FROM generations WHERE store = $1 AND generation = $2", known
            )
            if not rows:
                raise StoreBusy(f"{store} has a new generation; it is retried")
            self._ciphers[known] = AESGCM(rows[0][0])
        return self._ciphers[known]

    def _fetch(self, sql: str, values: Sequence[object] = (), store: str = "") -> list[Any]:
        with self._guarded(store) as connection:
            cursor = RawCursor(connection)
            cursor.execute(sql.encode(), values or None, binary=True)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _guarded(self, store: str) -> Iterator[Connection[Any]]:
        """Yield the connection. Raises StoreBusy and StoreBroken, and StoreFenced for `store`."""
        try:
            yield self._open()
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            reason = describe(error) or f"no answer within {TIMEOUT_S:g} s"
            raise StoreBusy(f"PostgreSQL (storage.url): {reason}; it is retried") from error
        except psycopg.DatabaseError as error:
            if error.sqlstate == FENCED:
                raise StoreFenced(store, 0) from error
            raise StoreBroken(f"PostgreSQL (storage.url) refuses: {describe(error)}") from error

    def _open(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            connect = partial(_Bounded.connect, autocommit=True, prepare_threshold=None)
            with ExitStack() as undo:
                self._connection = connect(self._url, **OPTIONS)
                undo.callback(self.close)
                _prepare(self._connection)
                undo.pop_all()
        return self._connection


def _create(cursor: RawCursor[Any], store: str, lease: int, schema: int) -> tuple[Any, ...]:
    """Create the entry of a store, and return it. Raises StoreFenced: another owner has it."""
    row = cursor.execute(CREATE.encode(), (store, lease, schema)).fetchone()
    if row is None:
        cursor.execute(b"SELECT lease FROM stores WHERE store = $1", (store,))
        raise StoreFenced(store, cursor.fetchall()[0][0])
    cursor.execute(ADD_KEY.encode(), (store, secrets.token_bytes(KEY_BYTES)))
    return tuple(row)


def _seal(cipher: AESGCM, data: bytes) -> bytes:
    """Compress and encrypt data. A commit of many messages shrinks to a fourth."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + cipher.encrypt(nonce, zlib.compress(data, 1), None)


def _prepare(connection: Connection[Any]) -> None:
    """Create or migrate the tables, and make commits durable.

    Raises StoreBroken: the tables are newer than this program.
    """
    connection.execute(END_SILENT_TRANSACTIONS)
    with connection.transaction():
        connection.execute(LOCK)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"SET search_path TO {SCHEMA}")
        connection.execute("CREATE TABLE IF NOT EXISTS journal_version(version int NOT NULL)")
        (version,) = _one(connection, "SELECT coalesce(max(version), 0) FROM journal_version")
        if version > len(MIGRATIONS):
            raise StoreBroken(
                f"storage.url: the journals were made by a newer Memrelay (schema {version}); "
                "run that one"
            )
        for number in range(version + 1, len(MIGRATIONS) + 1):
            for statement in MIGRATIONS[number - 1]:
                connection.execute(statement.encode())
            connection.execute("INSERT INTO journal_version VALUES (%s)", (number,))
    (durable,) = _one(connection, "SHOW synchronous_commit")
    if durable in ("off", "local"):
        connection.execute("SET synchronous_commit TO on")


def _one(connection: Connection[Any], sql: str) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], connection.execute(sql.encode()).fetchone())
