"""Row 16: the disk is full under a store or under the append-only file; the server is at its
memory limit.
"""

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants, await_no_remaining_work
from tests.support.bundles import make_bundle, make_uid
from tests.support.child import ChildProcess
from tests.support.client import input_of
from tests.support.disk import small_disk
from tests.support.http import Answer, ask
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.up_process import UpProcess
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

TEXTS = [f"{number} {'x' * 400}" for number in range(600)]
FULL_S = 2.0  # how long it stays full
# a function that takes all space, and one that releases it
Room = tuple[Callable[[], None], Callable[[], None]]


@contextmanager
def full_disk(folder: Path, worker: ChildProcess) -> Iterator[Room]:
    """Put the folder on a small disk."""
    with small_disk(folder, 4) as disk:
        yield disk.fill, disk.free


@contextmanager
def limited_files(folder: Path, worker: ChildProcess) -> Iterator[Room]:
    """Limit the size of the worker's files: the nearest to a full disk without root."""

    def limit(size: int) -> None:
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    # A new store has 400 kB.
    yield lambda: limit(600_000), lambda: limit(resource.RLIM_INFINITY)


@pytest.mark.skipif(sys.platform != "linux", reason="prlimit and tmpfs are Linux's")
@pytest.mark.parametrize("kind", [full_disk, limited_files])
def test_a_pipeline_with_a_full_disk_pauses_and_resumes(
    kind: Callable[[Path, ChildProcess], AbstractContextManager[Room]],
    record_figures: RecordFigures,
) -> None:
    uid, other = make_uid(), make_uid()
    with WebSystem(worker=False, BUS__MAX_BACKLOG=str(len(TEXTS))) as web_system:
        system, worker = web_system.system, web_system.system.start_worker()
        with kind(system.store_file(uid).parent, worker) as (fill, free):
            system.deploy(make_bundle(uid), make_bundle(other))
            system.client.answer(uid, "/write before")
            fill()
            system.client.enter_together(uid, [f"/write {text}" for text in TEXTS])
            wait_for(
                lambda: web_system.get(f"/ready?pipeline={uid}").status == 503,
                "it pauses, and says why",
            )
            assert "guid" in system.client.answer(other, "/write not disturbed")
            time.sleep(FULL_S)
            refused = await_refusal(web_system, uid)
            reasons = [
                one["paused"]
                for one in web_system.get("/status").json["pipelines"]
                if one["pipeline_uid"] == uid
            ]
            assert system.client.redis.xlen(input_of(uid)) >= len(TEXTS), (
                "something was acknowledged"
            )
            free()
            took_s = await_no_remaining_work(system, uid)
            more = [text for text in system.contents(uid) if text.startswith("extra")]
            assert_invariants(system, uid, ["before", *TEXTS, *more], url=web_system.url)
            wait_for(
                lambda: web_system.get(f"/ready?pipeline={uid}").status == 200, "it is ready again"
            )
            assert worker.stop() == 0

        assert "make room" in reasons[0] and (
            refused.problem[0],
            refused.headers["retry-after"],
        ) == (503, "1")
        record_figures(
            16,
            f"no room under a store: {kind.__name__.replace('_', ' ')}",
            messages=len(TEXTS),
            effects=len(TEXTS),
            done_within_s=took_s,
        )


def await_refusal(web_system: WebSystem, uid: str) -> Answer:
    """Return the answer to a POST after the server began to refuse; the first POST may still be
    accepted.
    """
    return wait_for(
        lambda: None if (answer := web_system.say(uid, "/write extra")).status == 202 else answer,
        "it is refused",
    )


def post(url: str, uid: str, text: str, wait: str = "") -> int:
    """Return the status of a POST with a new ID; 0 if the connection broke."""
    with suppress(OSError, HTTPException):
        return ask(
            url,
            "POST",
            f"/v1/pipelines/{uid}/swarms/chat/messages{wait}",
            f"/write {text}",
            {"webhook_id": text.partition(" ")[0]},
        ).status
    return 0


def test_a_server_with_a_full_disk_recovers_when_space_is_free(
    record_figures: RecordFigures,
) -> None:
    with TestSystem() as system, small_disk(system.folder / "up", 8) as disk:
        up = UpProcess(system)
        assert post(up.url, up.uid, "before", "?wait=60") == 200
        disk.fill()
        texts = [f"{number} {'y' * 2000}" for number in range(20)]
        answers = {text: post(up.url, up.uid, text) for text in texts}
        ready = ask(up.url, "GET", "/ready")
        named = b"the disk of the bus (bus.data) is full"
        path = f"/v1/pipelines/{up.uid}/swarms/chat/messages"
        for method, to in (("GET", "/ready"), ("POST", path)):
            wait_for(lambda m=method, p=to: named in ask(up.url, m, p, "x").body, f"{to} says it")
        time.sleep(FULL_S)
        assert up.process.lives
        disk.free()
        began = time.monotonic()
        wait_for(lambda: post(up.url, up.uid, "after") == 202, "it takes messages again")
        took_s = time.monotonic() - began

        assert (ready.status, ready.json["ready"]) == (503, False)
        assert set(answers.values()) <= {202, 503} and 503 in answers.values()
        assert {post(up.url, up.uid, text) for text in texts} == {202}
        with up.client() as system.client:
            assert_invariants(
                system, up.uid, ["before", "after", *texts], url=up.url, ordered=False
            )
        record_figures(
            16,
            "no room under the append-only file",
            refused=list(answers.values()).count(503),
            back_within_s=took_s,
        )
        assert up.process.stop() == 0


def test_a_server_at_its_memory_limit_refuses_and_recovers(
    record_figures: RecordFigures,
) -> None:
    with WebSystem(worker=False) as web_system:
        system, uid = web_system.system, make_uid()
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write before")
        with locked(system.store_file(uid)):
            system.client.enter_together(uid, [f"/write {text}" for text in TEXTS])
            system.client.redis.config_set("maxmemory", 1_000_000)
        wait_for(lambda: "OOM" in worker.output, "the worker tells the reason")
        answer, ready = (
            web_system.webhook(uid, "memory_write_", "meanwhile", webhook_id="1"),
            web_system.get("/ready"),
        )
        time.sleep(FULL_S)
        entries, tries = system.client.redis.xlen(input_of(uid)), worker.output.count("OOM")
        system.client.redis.config_set("maxmemory", 0)
        wait_for(lambda: web_system.get("/ready").status == 200, "it is ready again")

        assert (answer.problem[0], answer.headers["retry-after"], ready.status) == (503, "1", 503)
        assert "OOM" in answer.problem[1] and "OOM" in ready.json["checks"]["bus"]
        assert entries == len(TEXTS), "something was acknowledged"
        assert tries < 20, "it tries again in a hot loop"
        assert web_system.webhook(uid, "memory_write_", "meanwhile", webhook_id="1").status == 202
        took_s = assert_invariants(system, uid, ["before", *TEXTS, "meanwhile"], url=web_system.url)
        record_figures(
            16,
            "the server at its memory limit",
            messages=len(TEXTS),
            effects=len(TEXTS),
            done_within_s=took_s,
        )
        assert worker.stop() == 0
