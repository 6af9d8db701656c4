"""The rehearsals of a worker: one runs at a time, and the reports are files of the memory root.

The thread of a rehearsal copies the stores and waits for the child process. It touches no open
store.
"""

import asyncio
import os
from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from memrelay.blocks.sources import list_folders
from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.logs import get_logger
from memrelay.memory.control.catalog import Deployed
from memrelay.memory.engine.copy import (
    FOR_REHEARSAL,
    REPORTS,
    clear_old_reports,
    clear_reports,
    temporary_path,
)
from memrelay.memory.engine.memory_id import list_stores
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import MemoryFault, RecordNotFound, Refused
from memrelay.memory.models.inputs.packing import BUNDLE_DIGITS, KeptInput
from memrelay.memory.models.rehearsals.rehearsals import (
    CreateRehearsal,
    Rehearsal,
    RehearsalView,
)
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.copies import Copied, copy_stores
from memrelay.rehearsal.output import PAGED
from memrelay.rehearsal.process import RehearsalProcess
from memrelay.rehearsal.questions import check_questions
from memrelay.rehearsal.setup import DeployedBundle, Setup, write_setup

if TYPE_CHECKING:
    from memrelay.worker.shared import WorkerContext

log = get_logger(__name__)
Result = TypeVar("Result")
# Versions of a pipeline that a period may have, the latest.
MOST_VERSIONS = 50
CATALOG_S = 30.0
STOPPED, DELETED = "the rehearsal was stopped: ", "it was deleted"


@dataclass(slots=True, eq=False)
class _Running:
    """The rehearsal that runs. `stopped` is the reason to stop it, "" for none."""

    id: str
    plan: Plan
    request: CreateRehearsal
    since_ms: int | None
    until_ms: int
    created_ms: int
    thread: Thread | None = None
    process: RehearsalProcess | None = None
    stopped: str = ""

    def stop(self, reason: str) -> None:
        self.stopped = reason
        if self.process is not None:
            self.process.stop(f"{STOPPED}{reason}")

    def check(self) -> None:
        """Raise Refused if it was stopped."""
        if self.stopped:
            raise Refused(f"{STOPPED}{self.stopped}")


class Rehearsals:
    """The rehearsals of a worker. `loop` is the worker's. Thread-safe."""

    def __init__(self, shared: "WorkerContext", loop: asyncio.AbstractEventLoop) -> None:
        self._shared, self._loop = shared, loop
        self.root = shared.catalog.root
        self._lock = Lock()
        self._running: _Running | None = None

    def of(self, plan: Plan) -> "PipelineRehearsals":
        """Return the rehearsals of a pipeline."""
        return PipelineRehearsals(self, plan)

    def find_running(self, uid: str) -> _Running | None:
        """Return the rehearsal of a pipeline that runs."""
        running = self._running
        return running if running is not None and running.plan.uid == uid else None

    def start(
        self, plan: Plan, request: CreateRehearsal, since_ms: int | None, until_ms: int | None
    ) -> _Running:
        """Start a rehearsal, or return the same one that runs. Raises Refused."""
        with self._lock:
            running = self._running
            if running is not None:
                if running.plan.uid == plan.uid and running.request == request:
                    return running
                raise Refused(
                    f"the rehearsal {running.id} of pipeline {running.plan.uid} runs, and a worker "
                    "runs one at a time: wait for its end, or delete it"
                )
            now_ms = self._shared.clock.now_ms
            until_ms = min(until_ms or now_ms, now_ms)
            ident = f"{now_ms:012x}{token_hex(4)}"
            running = _Running(ident, plan, request, since_ms, until_ms, now_ms)
            running.thread = Thread(target=self._work, args=(running,), name="rehearsal")
            self._running = running
            running.thread.start()
            return running

    def stop(self, uids: Collection[str], reason: str) -> None:
        """Stop the rehearsal that runs, if it is of one of these pipelines."""
        running = self._running
        if running is not None and running.plan.uid in uids:
            running.stop(reason)

    async def stop_all(self, reason: str) -> None:
        """Stop the rehearsal that runs, wait for its end, and delete all reports."""
        running = self._running
        if running is not None and running.thread is not None:
            running.stop(reason)
            await self._loop.run_in_executor(None, running.thread.join)
        clear_reports(self.root)
        if running is not None:
            failure = _make_failure(running, f"{STOPPED}{reason}")
            write_report(self.root, running.plan.uid, failure)

    def _work(self, running: _Running) -> None:
        """Run a rehearsal to its end, in its own thread."""
        uid = running.plan.uid
        try:
            with temporary_path(self.root, FOR_REHEARSAL) as path:
                report = self._rehearse(running, path.parent)
        except (Refused, MemoryFault, OSError, TimeoutError) as error:
            report = _make_failure(running, str(error))
        try:
            if running.stopped != DELETED:
                write_report(self.root, uid, report)
        except OSError as error:
            log.warning("rehearsal_not_kept", pipeline=uid, reason=str(error))
        finally:
            self._running = None
        log.info("rehearsal_ended", pipeline=uid, status=report["status"], id=running.id)

    def _rehearse(self, running: _Running, folder: Path) -> dict[str, Any]:
        plan, request, shared = running.plan, running.request, self._shared
        own = list_stores(self.root, f"instances/{plan.uid}")
        names = tuple(dict.fromkeys((*plan.all_stores, *own)))
        since_ms = running.since_ms
        if request.messages is not None and since_ms is None:
            since_ms = running.until_ms
        copied = copy_stores(self.root, folder, plan.uid, names, (since_ms, running.until_ms))
        running.check()
        inputs, results = copied.inputs, copied.results
        if request.messages is not None:
            inputs, results = _make_inputs(request, copied), []
        if not inputs:
            raise Refused(
                "no input of the pipeline is kept in this period: set `inputs_days` in its bundle, "
                "or pass messages"
            )
        setup = Setup(
            running.id,
            plan.uid,
            running.created_ms,
            copied.since_ms,
            running.until_ms,
            self._find_versions(plan.uid, (copied.since_ms, running.until_ms), inputs),
            orjson.dumps(request.bundle),
            plan.timezone,
            shared.limits,
            shared.embedding.options.model,
            [str(one) for one in list_folders()] if request.own_blocks else [],
            questions=request.questions,
            notes=_make_notes(copied),
        )
        write_setup(folder, setup, inputs, results)
        running.process = RehearsalProcess(folder)
        running.check()
        return running.process.run()

    def _find_versions(
        self, uid: str, period: tuple[int, int], inputs: Sequence[KeptInput]
    ) -> list[DeployedBundle]:
        """Return the versions that served in the period, and those under which its inputs ran, the
        first one first.
        """
        versions = self._ask(self._shared.catalog.versions(uid))
        served = find_served(versions, period, {one.bundle for one in inputs})
        return [
            DeployedBundle(one.version, one.deployed_at, one.hash, source)
            for one in reversed(served[:MOST_VERSIONS])
            if (source := self._ask(self._shared.catalog.source(one.hash))) is not None
        ]

    def _ask(self, question: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the loop of the worker."""
        return asyncio.run_coroutine_threadsafe(question, self._loop).result(CATALOG_S)


class PipelineRehearsals:
    """The rehearsals of one pipeline, as the operations use them."""

    def __init__(self, rehearsals: Rehearsals, plan: Plan) -> None:
        self._rehearsals, self._plan = rehearsals, plan
        self._folder = rehearsals.root / REPORTS / plan.uid

    def create(
        self, request: CreateRehearsal, since_ms: int | None, until_ms: int | None
    ) -> RehearsalView:
        """Start a rehearsal. Raises Refused."""
        check_questions(request.questions, self._plan.uid)
        return _view_running(self._rehearsals.start(self._plan, request, since_ms, until_ms))

    def get(self, ident: str, start: int, nbytes: int) -> Rehearsal:
        """Return a rehearsal with its differences from number `start` on, up to about `nbytes`.

        Raises RecordNotFound.
        """
        running = self._find_running(ident)
        if running is not None:
            view = _view_running(running)
            fields = view.id, view.status, view.reason, view.created_at, view.equal, view.counts
            return Rehearsal(*fields, None, None)
        report = self._read(ident)
        view = _view(report)
        page, following = cut_page(report, start, nbytes)
        fields = view.id, view.status, view.reason, view.created_at, view.equal, view.counts
        return Rehearsal(*fields, page, None if following is None else str(following))

    def list(self) -> list[RehearsalView]:
        """Return all rehearsals, the latest first."""
        clear_old_reports(self._rehearsals.root)
        running = self._find_running()
        views = [] if running is None else [_view_running(running)]
        paths = sorted(self._folder.glob("*.json"), reverse=True)
        return views + [_view(self._read(path.stem)) for path in paths]

    def delete(self, ident: str) -> None:
        """Delete a rehearsal, and stop it if it runs. Raises RecordNotFound."""
        running = self._find_running(ident)
        if running is not None:
            running.stop(DELETED)
            return
        try:
            (self._folder / f"{ident}.json").unlink()
        except FileNotFoundError as error:
            raise _make_not_found(ident) from error

    def _find_running(self, ident: str = "") -> _Running | None:
        running = self._rehearsals.find_running(self._plan.uid)
        return running if running is not None and ident in ("", running.id) else None

    def _read(self, ident: str) -> dict[str, Any]:
        try:
            report: dict[str, Any] = orjson.loads((self._folder / f"{ident}.json").read_bytes())
        except FileNotFoundError as error:
            raise _make_not_found(ident) from error
        return report


def write_report(root: Path, uid: str, report: dict[str, Any]) -> None:
    """Keep a report. A reader finds the whole of it, or nothing."""
    folder = root / REPORTS / uid
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f"{report['id']}.draft"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(orjson.dumps(report))
    draft.replace(folder / f"{report['id']}.json")


def cut_page(report: dict[str, Any], start: int, nbytes: int) -> tuple[dict[str, Any], int | None]:
    """Return a report with only a page of its differences, and the number of the next one.

    A page has at least one. None is returned at the end.
    """
    page: dict[str, Any] = report | {name: [] for name in PAGED if name in report}
    left, number = nbytes - len(orjson.dumps(page)), 0
    for name in PAGED:
        for item in report.get(name, ()):
            number += 1
            if number <= start:
                continue
            left -= len(orjson.dumps(item))
            if left < 0 and number > start + 1:
                return page, number - 1
            page[name].append(item)
    return page, None


def find_served(
    versions: Sequence[Deployed], period: tuple[int, int], bundles: Collection[str]
) -> list[Deployed]:
    """Return the versions of a period, and those under which inputs ran: `bundles` has the first
    digits of their hashes. The newest is the first one, in `versions` too.
    """
    served = list(_serving(versions, period))
    missing = {*bundles} - {one.hash[:BUNDLE_DIGITS] for one in served}
    for one in versions:
        if (digits := one.hash[:BUNDLE_DIGITS]) in missing:
            missing.remove(digits)
            served.append(one)
    return sorted(served, key=lambda one: -one.version)


def _serving(versions: Sequence[Deployed], period: tuple[int, int]) -> Iterator[Deployed]:
    for one in versions:
        if one.deployed_at < period[1]:
            yield one
        if one.deployed_at <= period[0]:
            return


def _make_inputs(request: CreateRehearsal, copied: Copied) -> list[KeptInput]:
    """Return the given messages as inputs."""
    found = []
    for number, one in enumerate(request.messages or ()):
        message = new_message(one.user, "me", one.text, username=one.user, now_ms=copied.since_ms)
        fields = [b"swarm", one.swarm.encode(), b"data", encode(message)]
        found.append(KeptInput(copied.since_ms, number, "", fields))
    return found


def _make_notes(copied: Copied) -> list[str]:
    if not copied.incomplete:
        return []
    return [f"{copied.incomplete} records are left out: their state then is no longer kept"]


def _make_failure(running: _Running, reason: str) -> dict[str, Any]:
    return {
        "id": running.id,
        "pipeline": running.plan.uid,
        "status": "failed",
        "reason": reason,
        "created_at": format_time(running.created_ms),
    }


def _view_running(running: _Running) -> RehearsalView:
    return RehearsalView(running.id, "running", "", format_time(running.created_ms), None, {})


def _view(report: dict[str, Any]) -> RehearsalView:
    return RehearsalView(
        report["id"],
        report["status"],
        report["reason"],
        report["created_at"],
        report.get("equal"),
        report.get("counts", {}),
    )


def _make_not_found(ident: str) -> RecordNotFound:
    return RecordNotFound(f"no rehearsal has the id {ident!r}; its report is kept for 7 days")
