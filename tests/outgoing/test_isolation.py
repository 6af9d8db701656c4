"""An endpoint gets the events of its pipeline alone, and a slow receiver holds up no other one."""

import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.calls import call
from tests.support.hanging_receiver import HangingReceiver, answer_slowly, never_answer
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import WebhookReceiver

SHARED, RECORDS = "shared/board", ["record.*"]
COUNT = 20


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["endpoints"]})
        yield system


def write(system: TestSystem, uid: str, *texts: str) -> None:
    system.client.enter_together(uid, [f"/write {text}" for text in texts])


def find_answer(system: TestSystem, uid: str) -> str:
    """Return the answer to the last try of a dead letter's delivery, "" for none."""
    for one in call(system, uid, "deliveries.list")["items"]:
        if one["type"] == "dead_letter.added":
            tries = call(system, uid, "deliveries.get", {"id": one["id"]})["tries"]
            return str(tries[-1]["answer"]) if tries else ""
    return ""


def read_contents(receiver: WebhookReceiver) -> list[str]:
    return sorted(one.json["data"]["content"] for one in receiver.requests)


def test_an_endpoint_never_gets_the_events_of_another_pipeline(system: TestSystem) -> None:
    """The second pipeline writes to a store of the first one, the third has its own store."""
    first, second, third = make_uid(), make_uid(), make_uid()
    store = f"instances/{first}/notes"
    system.deploy(
        make_bundle(first, *make_commands(store)),
        make_bundle(second, *make_commands(store)),
        make_bundle(third, *make_commands("instances/${pipeline_uid}/notes")),
    )
    with WebhookReceiver() as one, WebhookReceiver() as two, WebhookReceiver() as three:
        for uid, receiver in ((first, one), (second, two), (third, three)):
            call(system, uid, "endpoints.create", {"url": receiver.url, "events": RECORDS})
        for uid in (first, second, third):
            write(system, uid, f"by {uid}")
            call(system, uid, "endpoints.test", {"id": find_endpoint(system, uid)})
        one.wait(3), two.wait(1), three.wait(2)
        types = [[got.json["type"] for got in each.requests] for each in (one, two, three)]
        assert [sorted(each) for each in types] == [
            ["endpoint.test", "record.created", "record.created"],
            ["endpoint.test"],
            ["endpoint.test", "record.created"],
        ]
        listed = call(system, second, "deliveries.list")["items"]
        assert [item["type"] for item in listed] == ["endpoint.test"]


def find_endpoint(system: TestSystem, uid: str) -> str:
    (endpoint,) = call(system, uid, "endpoints.list")["items"]
    return str(endpoint["id"])


def test_a_store_of_no_pipeline_raises_events_at_all_that_share_it(system: TestSystem) -> None:
    first, second = make_uid(), make_uid()
    system.deploy(*[make_bundle(uid, *make_commands(SHARED)) for uid in (first, second)])
    with WebhookReceiver() as one, WebhookReceiver() as two:
        for uid, receiver in ((first, one), (second, two)):
            call(system, uid, "endpoints.create", {"url": receiver.url, "events": RECORDS})
        write(system, first, "tea")
        assert [got.wait(1)[0].json["data"]["content"] for got in (one, two)] == ["tea", "tea"]


@pytest.mark.parametrize("answer", [never_answer, answer_slowly])
def test_a_receiver_that_hangs_holds_up_nobody_else(
    system: TestSystem, answer: Callable[[socket.socket], None]
) -> None:
    """While eight requests of one pipeline hang, messages and deliveries of another one arrive, and
    those of another endpoint of the same pipeline.
    """
    slow, other = make_uid(), make_uid()
    system.deploy(make_bundle(slow), make_bundle(other))
    with (
        HangingReceiver(answer) as hung,
        WebhookReceiver() as beside,
        WebhookReceiver() as receiver,
    ):
        hanging = call(system, slow, "endpoints.create", {"url": hung.url, "events": RECORDS})[
            "endpoint"
        ]["id"]
        call(system, slow, "endpoints.create", {"url": beside.url, "events": RECORDS})
        call(system, other, "endpoints.create", {"url": receiver.url, "events": RECORDS})
        texts = [f"note {number:02}" for number in range(COUNT)]
        write(system, slow, *texts)
        write(system, other, *texts)
        receiver.wait(COUNT), beside.wait(COUNT)
        assert read_contents(receiver) == read_contents(beside) == texts
        assert system.contents(other) == system.contents(slow) == texts
        waiting = call(system, slow, "deliveries.list", {"endpoint": hanging})["items"]
        assert {one["state"] for one in waiting} == {"waiting"}
        assert len(waiting) == COUNT
        wait_for(lambda: hung.connections >= 8, "eight requests hang")
        call(system, slow, "endpoints.delete", {"id": hanging})


def test_a_loop_through_our_own_webhook_ends_at_the_maximum_of_hops() -> None:
    """The webhook writes what the endpoint sends, which is a change that the endpoint sends."""
    token, most = "tea-with-milk", 4
    hook = make_memory("write", senders="nobody") | {"wf_webhook_token": "env:HOOK_TOKEN"}
    with WebSystem(worker=False, secrets={"HOOK_TOKEN": token}) as web_system:
        system = web_system.system
        port = urlsplit(web_system.url).port
        rules = {"open_for": ["endpoints"], "max_hops": most, "web_port": port}
        system.start_worker(outgoing=rules, environment={"HOOK_TOKEN": token})
        uid = web_system.deploy(hook)
        url = f"{web_system.url}/webhooks/{uid}/memory_write_"
        headers = {"Authorization": f"Bearer {token}"}
        call(system, uid, "endpoints.create", {"url": url, "headers": headers, "events": RECORDS})
        call(system, uid, "records.create", {"content": "tea"})

        def find_failed() -> list[str]:
            failed = call(system, uid, "deliveries.list", {"state": "failed"})["items"]
            return [str(one["id"]) for one in failed]

        (last,) = wait_for(find_failed, "the last delivery is not sent")
        (tried,) = call(system, uid, "deliveries.get", {"id": last})["tries"]
        assert "worker.max_hops is 4" in tried["answer"]
        assert len(system.contents(uid)) == 1 + most

        letters = {"url": url, "headers": headers, "events": ["dead_letter.*"]}
        call(system, uid, "endpoints.create", letters)
        system.client.enter_raw(uid, b"no envelope")
        answer = wait_for(lambda: find_answer(system, uid), "the dead letter is not sent")
        assert "Memrelay's own web server" in answer
