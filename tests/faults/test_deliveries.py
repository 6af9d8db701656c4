"""Every change reaches the endpoint under one id, although worker and receiver are killed."""

import pytest
from standardwebhooks import Webhook

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import Received, WebhookReceiver

NOTES = "instances/${pipeline_uid}/notes"


def deliver(kills: int, writes: int) -> None:
    """Kill a worker and the receiver in turn while messages are written."""
    requests: list[Received] = []
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["endpoints"]})
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
            system.start_worker(outgoing={"open_for": ["endpoints"]})
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


def test_no_change_is_lost_when_worker_and_receiver_are_killed() -> None:
    deliver(kills=1, writes=50)


@pytest.mark.slow
def test_no_change_is_lost_in_ten_kills() -> None:
    deliver(kills=10, writes=100)
