"""A snapshot of a store as it was, while the worker is killed, a text is erased, messages go on, or
the disk is full.
"""

import resource
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Thread

import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from tests.memory.builders import write_all
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call
from tests.support.erasures import await_erasure, files_with
from tests.support.http import Answer
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

RECORDS = 20_000


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as web_system:
        yield web_system


def deploy_large_store(web_system: WebSystem) -> str:
    """Deploy a pipeline whose store has many records, the first one with a secret."""
    uid = make_uid()
    name = f"instances/{uid}/memories"
    store = Store(name, store_path(web_system.system.root, name))
    texts = (f"tea number {number} {'word ' * 50}" for number in range(RECORDS))
    write_all(store, "the secret of Ada", *texts, scope=name)
    store.close()
    web_system.system.deploy(make_bundle(uid))
    return uid


def read_first(web_system: WebSystem, uid: str) -> Answer:
    return web_system.get(f"/v1/pipelines/{uid}/records?order=asc&limit=2&as_of=n:{RECORDS}")


def read_in_vain(web_system: WebSystem, uid: str) -> None:
    with suppress(OSError, HTTPException):
        read_first(web_system, uid)


def snapshots(web_system: WebSystem) -> list[Path]:
    return list(web_system.system.root.glob(".asof-*/*"))


@pytest.mark.slow
def test_nothing_is_left_of_a_snapshot_after_kill_and_start(web_system: WebSystem) -> None:
    worker = web_system.system.start_worker()
    uid = deploy_large_store(web_system)
    web_system.system.client.answer(uid, "/write milk")
    # Its caller waits for nothing.
    Thread(target=read_in_vain, args=(web_system, uid), daemon=True).start()
    wait_for(lambda: snapshots(web_system), "it is being made")
    worker.kill()
    assert snapshots(web_system)

    web_system.system.start_worker()

    assert list(web_system.system.root.glob(".asof-*")) == []
    wait_for(lambda: read_first(web_system, uid).status == 200, "it is made again")


@pytest.mark.slow
def test_a_text_that_is_erased_while_a_snapshot_is_made_is_in_none(web_system: WebSystem) -> None:
    web_system.system.start_worker()
    uid = deploy_large_store(web_system)
    found = web_system.get(f"/v1/pipelines/{uid}/records?order=asc&limit=1").json["items"][0]
    with ThreadPoolExecutor(1) as reader:
        answer = reader.submit(read_first, web_system, uid)
        wait_for(lambda: snapshots(web_system), "it is being made")
        call(web_system.system, uid, "records.erase", {"guids": [found["guid"]]})
        await_erasure(web_system.system, uid)
        answer.result()

    assert files_with(web_system.system, b"secret of ada") == []
    again = read_first(web_system, uid)
    assert "secret" not in again.body.decode()
    assert files_with(web_system.system, b"secret of ada") == []


@pytest.mark.slow
def test_messages_go_on_while_a_snapshot_is_made(web_system: WebSystem) -> None:
    web_system.system.start_worker()
    uid = deploy_large_store(web_system)
    web_system.system.client.answer(uid, "/write milk")
    written = 0
    with ThreadPoolExecutor(1) as reader:
        answer = reader.submit(read_first, web_system, uid)
        wait_for(lambda: snapshots(web_system), "it is being made")
        while not answer.done():
            web_system.system.client.answer(uid, f"/write {written}")
            written += 1
    assert answer.result().status == 200
    assert written > 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")
def test_a_full_disk_refuses_the_snapshot_and_nothing_else(web_system: WebSystem) -> None:
    worker = web_system.system.start_worker()
    uid = deploy_large_store(web_system)
    web_system.system.client.answer(uid, "/write milk")
    # The nearest to a full disk for one file.
    half = web_system.system.store_file(uid).stat().st_size // 2
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (half, resource.RLIM_INFINITY))

    refused = read_first(web_system, uid)

    assert refused.status == 503
    assert "make room" in refused.problem[1]
    assert list(web_system.system.root.glob(".asof-*/*")) == []
    assert "guid" in web_system.system.client.answer(uid, "/write more")
    unlimited = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, unlimited)
    assert read_first(web_system, uid).status == 200
