"""Messages published on a channel are taken once, and Memrelay's own live copies never."""

import orjson
import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.client import Subscriber, input_of, make_envelope, swarm_of
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def deploy(system: TestSystem) -> str:
    """Deploy a new pipeline with the five commands, and return its uid."""
    uid = make_uid()
    system.deploy(make_bundle(uid))
    return uid


def entered(system: TestSystem, uid: str) -> int:
    """Return the number of entries ever added to the input."""
    return int(system.client.redis.xinfo_stream(input_of(uid))["entries-added"])


def is_answer(payload: bytes) -> bool:
    return b'"from":"memory_' in payload


def test_a_published_message_is_processed_once_and_answered_on_the_channel(
    system: TestSystem,
) -> None:
    uid = deploy(system)

    with Subscriber(system.client, uid) as subscriber:
        system.client.publish(uid, make_envelope("/write tea"))
        heard = [orjson.loads(payload) for payload in subscriber.until(is_answer)]

    system.client.await_quiet(uid)
    assert [message["from"] for message in heard] == ["User", "dispatch_write", "memory_write"]
    assert [said.sender for said in system.client.log(uid)] == [
        "User",
        "dispatch_write",
        "memory_write",
    ]
    assert (system.contents(uid), entered(system, uid)) == (["tea"], 1)


def test_a_published_message_is_logged_and_not_published_again(system: TestSystem) -> None:
    uid = deploy(system)
    data = make_envelope("/write tea")

    with Subscriber(system.client, uid) as subscriber:
        system.client.publish(uid, data)
        heard = subscriber.until(is_answer)

    logged = system.client.log(uid)[0]
    assert heard.count(data) == 1
    assert (logged.text, logged.input.count("-")) == ("/write tea", 1)
    assert sum(b'"from":"User"' in payload for payload in heard) == 1


def test_live_copies_are_not_taken_as_messages(
    system: TestSystem,
) -> None:
    uid = deploy(system)
    with Subscriber(system.client, uid) as subscriber:
        system.client.enter(uid, "/write tea")
        copies = subscriber.until(is_answer)

    for copy in copies:
        system.client.publish(uid, copy)
    system.client.publish(uid, make_envelope("/write more"))
    wait_for(lambda: "more" in system.contents(uid), "the message after the copies is done")

    assert system.contents(uid) == ["tea", "more"]
    assert entered(system, uid) == 2


def test_a_changed_copy_is_a_new_message(system: TestSystem) -> None:
    uid = deploy(system)
    with Subscriber(system.client, uid) as subscriber:
        system.client.enter(uid, "/write tea")
        copy = subscriber.until(lambda payload: b'"from":"User"' in payload)[-1]

    system.client.publish(uid, copy.replace(b"/write tea", b"/write chai"))

    def list_mids() -> list[str]:
        return [said.mid for said in system.client.log(uid) if said.sender == "User"]

    wait_for(lambda: len(list_mids()) > 1, "the changed copy is taken")

    mids = list_mids()
    assert system.contents(uid) == ["tea", "chai"]
    assert orjson.loads(copy)["mid"] == mids[0] != mids[1]


@pytest.mark.parametrize("claim", ["", "tea", "1700000000000-0.0~00000000", '"}', "x" * 2000])
def test_a_message_with_a_false_mid_is_taken(system: TestSystem, claim: str) -> None:
    uid = deploy(system)
    data = make_envelope("/write tea")

    system.client.publish(uid, b'{"mid":' + orjson.dumps(claim) + b"," + data[1:])

    wait_for(lambda: system.contents(uid), "the message is taken")
    assert system.contents(uid) == ["tea"]


ALIASES = {
    "quotes": 'say "hi"',
    "backslash": "a\\b",
    "tilde": "a~b",
    "long": "x" * 128,
    "longer": "é" * 128,
    "wide": "茶" * 99,
}


@pytest.mark.parametrize("alias", ALIASES.values(), ids=ALIASES)
def test_live_copies_are_valid_json_for_any_agent_alias(system: TestSystem, alias: str) -> None:
    uid = make_uid()
    second = make_memory(
        "write",
        senders="memory_search",
        memory_id="instances/${pipeline_uid}/notes",
        alias="keeper",
    )
    system.deploy(make_bundle(uid, *make_commands(), second | {"agent_alias": alias}))

    with Subscriber(system.client, uid) as subscriber:
        system.client.enter(uid, "/search tea")
        heard = subscriber.until(lambda payload: b'"from":"keeper"' in payload)

    logged = [said.mid for said in system.client.log(uid)]
    assert [orjson.loads(payload)["mid"] for payload in heard] == logged
    for payload in heard:
        system.client.publish(uid, payload)
    system.client.publish(
        uid, make_envelope("one more, so that whatever is taken is taken before it")
    )
    wait_for(lambda: system.client.log(uid)[-1].text.startswith("one more"), "the last one is done")
    assert entered(system, uid) == 2


def test_a_client_can_publish_on_any_swarm_of_a_pipeline(system: TestSystem) -> None:
    uid = deploy(system)

    system.client.publish(uid, make_envelope("straight to the memory", sender="dispatch_write"))

    wait_for(lambda: system.contents(uid), "the message is taken")
    assert system.contents(uid) == ["straight to the memory"]


def test_many_published_messages_are_taken_once_and_in_order(system: TestSystem) -> None:
    uid, count = deploy(system), 10_000
    with system.client.redis.pipeline(transaction=False) as pipe:
        for number in range(count):
            pipe.publish(swarm_of(uid, "chat"), make_envelope(f"/write {number}"))
        pipe.execute()

    wait_for(lambda: entered(system, uid) >= count, "everything is taken")
    system.client.await_quiet(uid)

    assert system.contents(uid) == [str(number) for number in range(count)]
    assert entered(system, uid) == count
