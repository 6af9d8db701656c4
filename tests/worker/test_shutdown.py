"""SIGTERM: the worker finishes its messages within the grace time, without loss or repetition."""

from tests.support.bundles import make_bundle, make_uid
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

SHORT = {"grace_s": 1}


def test_a_stop_leaves_one_file_per_store_and_nothing_to_recover() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)])
        system.client.answer(uid, "/write tea")

        assert worker.stop() == 0

        files = [file.name for file in system.store_file(uid).parent.iterdir()]
        assert files == ["memories.db"]
        assert system.client.unacknowledged(uid) == 0


def test_a_worker_without_a_server_stops() -> None:
    with TestSystem() as system:
        system.server.stop()
        worker = system.start_worker(bundles=[make_bundle(make_uid())], limits=SHORT, ready=False)
        wait_for(lambda: "bus_lost" in worker.output, "the worker has noticed")

        assert worker.stop() == 0


def test_a_worker_with_a_locked_store_stops_and_its_messages_stay_pending() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid)], limits=SHORT)
        system.client.answer(uid, "/write before")

        with locked(system.store_file(uid)):
            system.client.enter(uid, "/write after")
            wait_for(lambda: "pipeline_paused" in worker.output, "the worker waits for the store")
            assert worker.stop() == 0

        system.start_worker()
        system.client.await_quiet(uid)
        assert system.contents(uid) == ["before", "after"]
