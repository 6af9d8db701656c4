"""Tries go on after a restart of the worker: at their times, and under one id."""

from itertools import pairwise
from pathlib import Path

import pytest

from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.outbox import Request, collect, note_answers, take_due
from memrelay.memory.models.endpoints.schedule import PAUSES_S, Answer
from memrelay.memory.models.endpoints.table import Endpoint, EndpointSpec, EndpointTable
from tests.memory.builders import MEMORY_ID, NOW, perform_at
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Reply, WebhookReceiver

ENDPOINTS = "instances/a3d8f1b2/endpoints"
DOWN, RECORDS = Answer(500, "down"), ["record.*"]


class Outbox:
    """The stores of a pipeline with an endpoint, and a clock. A step runs on newly opened stores,
    as after a restart.
    """

    def __init__(self, root: Path, records: int) -> None:
        self._root, self.now_ms, self._jitter = root, NOW, 0.0
        stores = self.open()
        endpoint = Endpoint("ep", EndpointSpec("https://example.com"), (), "", NOW, NOW)
        with stores.get(ENDPOINTS).transaction() as tx:
            tx.table(EndpointTable).put(endpoint)
        for _ in range(records):
            perform_at(stores.get(MEMORY_ID), NOW, "records.create", content="tea")
        collect(stores, ENDPOINTS, [MEMORY_ID], NOW)
        stores.close_all()

    def open(self) -> OpenStores:
        stores = OpenStores(self._root, 10)
        stores.compose({MEMORY_ID: frozenset({FEED})})
        return stores

    def await_requests(self, *, jitter: float = 0.0, answer: Answer = DOWN) -> list[Request]:
        """Set the clock to the time of the next requests, answer them, and return them."""
        stores = self.open()
        due = take_due(stores, ENDPOINTS, self.now_ms, {}, lambda _: 64)
        if not due.requests and due.next_ms is not None:
            assert not take_due(stores, ENDPOINTS, due.next_ms - 1, {}, lambda _: 64).requests
            self.now_ms = due.next_ms
            due = take_due(stores, ENDPOINTS, self.now_ms, {}, lambda _: 64)
        answers = [(one.delivery, answer) for one in due.requests]
        note_answers(stores, ENDPOINTS, answers, self.now_ms, lambda: jitter)
        stores.close_all()
        return due.requests

    def try_times(self) -> list[list[int]]:
        """Return the times of the tries of each delivery, Unix ms."""
        stores = self.open()
        table = stores.get(ENDPOINTS).table(EndpointTable)
        times = [[one.at for one in table.tries(found.n)] for found in table.select("", ())]
        stores.close_all()
        return times


@pytest.mark.parametrize("jitter", [0.0, 1.0])
def test_a_failing_delivery_keeps_its_times_over_restarts(tmp_path: Path, jitter: float) -> None:
    outbox = Outbox(tmp_path, 1)
    ids = set[str]()
    while requests := outbox.await_requests(jitter=jitter):
        ids.update(one.delivery.id for one in requests)

    (times,) = outbox.try_times()
    pauses = [after - before for before, after in pairwise(times)]
    assert len(ids) == 1
    assert pauses == [int(pause_s * 1000 * (1 + 0.2 * jitter)) for pause_s in PAUSES_S]


def test_an_outage_of_an_hour_fails_no_delivery(tmp_path: Path) -> None:
    """The open circuit gives one of them a try each minute, and none more than its schedule."""
    outbox = Outbox(tmp_path, 3)
    while outbox.now_ms < NOW + 3_600_000:
        assert outbox.await_requests()

    delivered = set[str]()
    while requests := outbox.await_requests(answer=Answer(200, "ok")):
        delivered.update(one.delivery.id for one in requests)
    assert len(delivered) == 3


def test_a_new_worker_goes_on_with_the_second_try() -> None:
    with TestSystem() as system, WebhookReceiver() as receiver:
        receiver.script.append(Reply(503, b"busy", (("Retry-After", "1"),)))
        rules = {"open_for": ["endpoints"]}
        worker, uid = system.start_worker(outgoing=rules), make_uid()
        system.deploy(make_bundle(uid))
        call(system, uid, "endpoints.create", {"url": receiver.url, "events": RECORDS})
        call(system, uid, "records.create", {"content": "tea"})

        def list_tries() -> list[int]:
            rows = system.rows(uid, "SELECT status FROM delivery_tries ORDER BY n", "endpoints")
            return [status for (status,) in rows]

        wait_for(lambda: list_tries() == [503], "the first try is noted")
        worker.kill()
        system.start_worker(outgoing=rules)
        wait_for(lambda: list_tries() == [503, 200], "the second try succeeds")
        first, second = receiver.requests
        assert first.id == second.id


def test_an_answer_that_comes_after_an_erasure_is_not_kept(tmp_path: Path) -> None:
    """Its request began before, so it may quote the erased record."""
    outbox = Outbox(tmp_path, 1)
    stores = outbox.open()
    (sent,) = take_due(stores, ENDPOINTS, NOW, {}, lambda _: 64).requests
    perform_at(stores.get(MEMORY_ID), NOW + 50, "records.erase", text="tea")
    collect(stores, ENDPOINTS, [MEMORY_ID], NOW + 60)

    for answer, now_ms in ((Answer(500, "tea", took_ms=90), NOW + 90), (DOWN, NOW + 9_000)):
        note_answers(stores, ENDPOINTS, [(sent.delivery, answer)], now_ms, lambda: 0.0)

    tries = stores.get(ENDPOINTS).table(EndpointTable).tries(sent.delivery.n)
    assert [(one.status, one.answer) for one in tries] == [(500, ""), (500, "down")]
    stores.close_all()
