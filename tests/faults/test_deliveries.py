"""Rows 37 to 39: every change reaches the endpoint under one id, although worker and receiver are
killed, the disk is full, or the store of the endpoints is damaged.
"""

import pytest
from standardwebhooks import Webhook

from tests.faults.conftest import RecordFigures
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.calls import call
from tests.support.client import input_of
from tests.support.damage import PAGE, as_after_a_crash, flip_bytes
from tests.support.disk import small_disk
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Received, WebhookReceiver
from tests.support.worker_reports import await_paused

NOTES = "instances/${pipeline_uid}/notes"


OPEN = {"open_for": ["endpoints"]}


def deliver(kills: int, writes: int) -> int:
    """Kill a worker and the receiver in turn while messages are written. Return the number of
    requests.
    """
    requests: list[Received] = []
    with TestSystem() as system:
        system.start_worker(outgoing=OPEN)
        uid = make_uid()
        system.deploy(make_bundle(uid, *make_commands(NOTES)))
        receiver = WebhookReceiver()
        created = call(system, uid, "endpoints.create", {"url": receiver.url})
        for number in range(kills):
            texts = [f"/write note {number}/{at}" for at in range(writes)]
            with receiver:
                system.client.enter_together(uid, texts)
                receiver.wait(3)
                system.workers[-1].kill()
            requests += receiver.requests
            receiver = WebhookReceiver(port=receiver.server_port)
            system.start_worker(outgoing=OPEN)
        wanted = {f"note {number}/{at}" for number in range(kills) for at in range(writes)}

        def arrived() -> set[str]:
            every = [*requests, *receiver.requests]
            return {one.json["data"]["content"] for one in every}

        with receiver:
            wait_for(lambda: arrived() == wanted, "all arrived", 120)
        every = [*requests, *receiver.requests]
        assert len({one.id for one in every}) == len(wanted)
        for one in every:
            Webhook(created["secret"]).verify(one.body, one.headers)
        return len(every)


def test_no_change_is_lost_when_worker_and_receiver_are_killed() -> None:
    deliver(kills=1, writes=50)


@pytest.mark.slow
def test_no_change_is_lost_in_ten_kills(record_figures: RecordFigures) -> None:
    requests = deliver(kills=10, writes=100)
    record_figures(37, "worker and receiver killed", changes=1000, ids=1000, requests=requests)


@pytest.mark.slow
def test_a_full_disk_pauses_messages_and_deliveries(record_figures: RecordFigures) -> None:
    texts = [f"{number} {'x' * 400}" for number in range(600)]
    with TestSystem() as system, WebhookReceiver() as receiver:
        uid = make_uid()
        with small_disk(system.store_file(uid).parent, 8) as disk:
            system.start_worker(outgoing=OPEN)
            system.deploy(make_bundle(uid, *make_commands(NOTES)))
            call(system, uid, "endpoints.create", {"url": receiver.url})
            system.client.answer(uid, "/write before")
            receiver.wait(1)
            disk.fill()
            system.client.enter_together(uid, [f"/write {text}" for text in texts])
            reason = await_paused(system, uid, "make room")
            sent = len({one.id for one in receiver.requests})
            assert sent < len(texts), reason
            disk.free()
            wait_for(lambda: len(contents(receiver)) == len(texts) + 1, "all arrived", 120)
            assert contents(receiver) == {"before", *texts}
            ids = {one.id for one in receiver.requests}
            assert len(ids) == len(texts) + 1
            assert system.workers[-1].stop() == 0
        record_figures(38, "full disk with an endpoint", changes=len(ids), ids=len(ids))


@pytest.mark.slow
def test_a_damaged_store_of_endpoints_pauses_and_loses_nothing(
    record_figures: RecordFigures,
) -> None:
    with TestSystem() as system, WebhookReceiver() as receiver:
        uid = make_uid()
        system.start_worker(outgoing=OPEN)
        system.deploy(make_bundle(uid, *make_commands(NOTES)))
        call(system, uid, "endpoints.create", {"url": receiver.url})
        system.client.enter_together(uid, [f"/write {number}" for number in range(20)])
        receiver.wait(20)
        system.client.await_quiet(uid)
        system.workers[-1].kill()
        file = system.store_file(uid, "endpoints")
        as_after_a_crash(file)
        intact = file.read_bytes()
        flip_bytes(file, PAGE, len(intact), 2000)

        system.start_worker(outgoing=OPEN)
        ident = system.client.enter(uid, "/write after")
        reason = await_paused(system, uid, "is damaged")
        assert "memrelay restore" in reason
        assert system.workers[-1].lives
        assert system.client.redis.xrange(input_of(uid), ident, ident)
        record_figures(39, "store of endpoints damaged", found="at open")


def contents(receiver: WebhookReceiver) -> set[str]:
    return {one.json["data"]["content"] for one in receiver.requests}
