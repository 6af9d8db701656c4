"""The operations from Python on a store file of one's own, without bus and server.

    with open_store("notes.db") as store:
        store.records.create("tea")

No worker serves the file meanwhile: who opens it takes the lock of its memory root, or where it
lies in none one of its own.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cached_property
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import ValidationError

from memrelay.memory.errors import Refused, StoreBusy
from memrelay.memory.operation import Context, Noun, Operation, bound_input
from memrelay.memory.operations.records_erase import NAME as ERASE
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.records.view import LONGEST_NAME
from memrelay.memory.retention import HISTORY_DAYS, delete_expired
from memrelay.memory.sqlite.connection import refuse_others, translated
from memrelay.memory.sqlite.store import Store
from memrelay.pipelines.rules import in_a_line
from memrelay.worker.ownership.host_locks import alone

ACTOR = "python"
RESULT_BYTES = 1 << 30
REAP_S = 0.5  # that an opening may take to delete what is over
ROOT_HAS = ("system.db", "owner.lock")  # what tells a memory root


class EmbeddedStore:
    """An open store file, of one process, whose threads take turns; it has an attribute for each
    noun of the operations."""

    def __init__(self, store: Store, actor: str, *, is_alone: bool) -> None:
        """`actor` is the source of what is written, where none is named. `is_alone`: it is no
        pipeline's, which a worker
        serves at other times, and who then goes on with what was erased.
        """
        self._store, self._actor, self._is_alone = store, actor, is_alone
        self._token, self._numbers = secrets.token_hex(8), count(1)
        self._turn, self._process = Lock(), os.getpid()

    def close(self) -> None:
        """Nothing can be done with it any more."""
        with self._turn:
            self._process = 0

    def go_on(self) -> None:
        """Ends an erasure that was interrupted; what keeps it from that may have passed when the
        file is opened again."""
        if self._is_alone and self._store.erasures.is_open():
            with suppress(StoreBusy), translated(str(self._store.path)):
                self._finish()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """While no other thread uses it. Raises Refused."""
        with self._turn:
            if not self._process:
                raise Refused(f"{self._store.path} is closed; use it inside `with open_store(...)`")
            if self._process != os.getpid():  # SQLite's files do not stand a fork
                raise Refused(
                    f"{self._store.path} was opened in the process {self._process}; use it there, or open it anew "
                    "once it is closed there"
                )
            yield

    @cached_property
    def records(self) -> Noun[Callable[..., Any]]:
        """What is remembered."""
        return Noun("records", self._bind)

    @cached_property
    def memories(self) -> Noun[Callable[..., Any]]:
        """Named memories."""
        return Noun("memories", self._bind)

    @cached_property
    def entries(self) -> Noun[Callable[..., Any]]:
        """What they hold."""
        return Noun("entries", self._bind)

    @cached_property
    def knowledge(self) -> Noun[Callable[..., Any]]:
        """What is found in them."""
        return Noun("knowledge", self._bind)

    def _bind(self, operation: Operation) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            """Calls the operation, in a transaction of its own where it changes something. Raises
            Refused and StoreBusy."""
            values = bound_input(operation, given, named)
            try:
                asked = operation.adapter.validate_python(values)
            except ValidationError as error:
                raise Refused(f"{operation.name}: {in_a_line(error)}") from error
            with self._in_turn():
                return self._run(operation, asked)

        call.__doc__ = operation.summary
        return call

    def _run(self, operation: Operation, asked: Any) -> Any:
        if not operation.mutates:
            return operation.run(self._store, asked, self._context(operation))
        with self._store.transaction() as tx:
            output = operation.run(tx, asked, self._context(operation))
        if operation.name == ERASE and self._is_alone:
            self._finish()
        return output

    def _finish(self) -> None:
        """What was erased is in no page any more; there is no bus, and nobody else, that quotes
        it."""
        last = self._store.erasures.every(1)[0]
        with self._store.transaction() as tx:
            tx.erasures.forget(LARGEST, (0, 0, 0))
        self._store.rewrite()
        with self._store.transaction() as tx:
            tx.erasures.end(last.n, time.time_ns() // 1_000_000, "")

    def _context(self, operation: Operation) -> Context:
        now_ms = time.time_ns() // 1_000_000
        return Context(
            now_ms,
            self._actor,
            RESULT_BYTES,
            lambda: derive_guid(self._token, f"{now_ms}-{next(self._numbers)}", operation.name, 1),
        )


@contextmanager
def open_store(path: str | Path, actor: str = ACTOR) -> Iterator[EmbeddedStore]:
    """The store in that file, which is made where there is none.

    Raises Refused for an actor that is no name, NotTheOwner where a worker serves its memory root,
    StoreBusy where another
    program has it open, and StoreBroken.
    """
    if not isinstance(actor, str) or not actor.isprintable() or len(actor) > LONGEST_NAME:
        raise Refused(
            f"open_store: `actor` must be a text of at most {LONGEST_NAME} characters that can be shown"
        )
    path = Path(path).absolute()
    if (root := _root_of(path)) is None:
        path = path.resolve()  # a link is the file that it leads to, and has no lock of its own
        root = _root_of(path)
    if root is None:
        refuse_others(path)
    with ExitStack() as stack:
        if root is not None:
            stack.enter_context(alone(root))
        else:
            with translated(str(path)):
                path.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(path))
        name = str(path.relative_to(root or path.parent)).removesuffix(".db")
        store = stack.enter_context(closing(Store(name, path)))
        _reap(store)
        embedded = stack.enter_context(closing(EmbeddedStore(store, actor, is_alone=root is None)))
        embedded.go_on()
        yield embedded


def _root_of(path: Path) -> Path | None:
    """The memory root in which a file lies."""
    return next(
        (folder for folder in path.parents if any((folder / name).exists() for name in ROOT_HAS)),
        None,
    )


def _reap(store: Store) -> None:
    """Deletes what is over, as a worker does by and by; the rest of it at the next opening."""
    until = time.monotonic() + REAP_S
    while (
        delete_expired(store, time.time_ns() // 1_000_000, HISTORY_DAYS).gone
        and time.monotonic() < until
    ):
        pass


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else opens the file like this meanwhile."""
    with Path(f"{path}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusy(f"{path} is open in another program; close it there first") from error
        yield
