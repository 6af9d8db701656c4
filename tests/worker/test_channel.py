"""Messages published on a channel are taken once, and Memrelay's own live copies never."""

import orjson
import pytest

from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.client import Ear, input_of, make_envelope, swarm_of
from tests.support.house import House
from tests.support.waiting import wait_for


def deploy(house: House) -> str:
    """Deploy a new pipeline with the five commands, and return its uid."""
    uid = make_uid()
    house.deploy(make_bundle(uid))
    return uid


def entered(house: House, uid: str) -> int:
    """Return the number of entries ever added to the input."""
    return int(house.client.redis.xinfo_stream(input_of(uid))["entries-added"])


def is_answer(payload: bytes) -> bool:
    return b'"from":"memory_' in payload


def test_a_published_message_is_processed_once_and_answered_on_the_channel(house: House) -> None:
    uid = deploy(house)

    with Ear(house.client, uid) as ear:
        house.client.publish(uid, make_envelope("/write tea"))
        heard = [orjson.loads(payload) for payload in ear.until(is_answer)]

    house.client.await_quiet(uid)
    assert [message["from"] for message in heard] == ["User", "dispatch_write", "memory_write"]
    assert [said.sender for said in house.client.log(uid)] == [
        "User",
        "dispatch_write",
        "memory_write",
    ]
    assert (house.contents(uid), entered(house, uid)) == (["tea"], 1)


def test_a_published_message_is_logged_and_not_published_again(house: House) -> None:
    uid = deploy(house)
    data = make_envelope("/write tea")

    with Ear(house.client, uid) as ear:
        house.client.publish(uid, data)
        heard = ear.until(is_answer)

    logged = house.client.log(uid)[0]
    assert heard.count(data) == 1
    assert (logged.text, logged.input.count("-")) == ("/write tea", 1)
    assert sum(b'"from":"User"' in payload for payload in heard) == 1


def test_live_copies_are_not_taken_as_messages(
    house: House,
) -> None:
    uid = deploy(house)
    with Ear(house.client, uid) as ear:
        house.client.enter(uid, "/write tea")
        copies = ear.until(is_answer)

    for copy in copies:
        house.client.publish(uid, copy)
    house.client.publish(uid, make_envelope("/write more"))
    wait_for(lambda: "more" in house.contents(uid), "the message after the copies is done")

    assert house.contents(uid) == ["tea", "more"]
    assert entered(house, uid) == 2


def test_a_changed_copy_is_a_new_message(house: House) -> None:
    uid = deploy(house)
    with Ear(house.client, uid) as ear:
        house.client.enter(uid, "/write tea")
        copy = ear.until(lambda payload: b'"from":"User"' in payload)[-1]

    house.client.publish(uid, copy.replace(b"/write tea", b"/write chai"))

    def list_mids() -> list[str]:
        return [said.mid for said in house.client.log(uid) if said.sender == "User"]

    wait_for(lambda: len(list_mids()) > 1, "the changed copy is taken")

    mids = list_mids()
    assert house.contents(uid) == ["tea", "chai"]
    assert orjson.loads(copy)["mid"] == mids[0] != mids[1]


@pytest.mark.parametrize("claim", ["", "tea", "1700000000000-0.0~00000000", '"}', "x" * 2000])
def test_a_message_with_a_false_mid_is_taken(house: House, claim: str) -> None:
    uid = deploy(house)
    data = make_envelope("/write tea")

    house.client.publish(uid, b'{"mid":' + orjson.dumps(claim) + b"," + data[1:])

    wait_for(lambda: house.contents(uid), "the message is taken")
    assert house.contents(uid) == ["tea"]


ALIASES = {
    "quotes": 'say "hi"',
    "backslash": "a\\b",
    "tilde": "a~b",
    "long": "x" * 128,
    "longer": "é" * 128,
    "wide": "茶" * 99,
}


@pytest.mark.parametrize("alias", ALIASES.values(), ids=ALIASES)
def test_live_copies_are_valid_json_for_any_agent_alias(house: House, alias: str) -> None:
    uid = make_uid()
    second = make_memory(
        "write", hears="memory_search", memory_id="instances/${pipeline_uid}/notes", alias="keeper"
    )
    house.deploy(make_bundle(uid, *make_commands(), second | {"agent_alias": alias}))

    with Ear(house.client, uid) as ear:
        house.client.enter(uid, "/search tea")
        heard = ear.until(lambda payload: b'"from":"keeper"' in payload)

    logged = [said.mid for said in house.client.log(uid)]
    assert [orjson.loads(payload)["mid"] for payload in heard] == logged
    for payload in heard:
        house.client.publish(uid, payload)
    house.client.publish(
        uid, make_envelope("one more, so that whatever is taken is taken before it")
    )
    wait_for(lambda: house.client.log(uid)[-1].text.startswith("one more"), "the last one is done")
    assert entered(house, uid) == 2


def test_a_client_can_publish_on_any_swarm_of_a_pipeline(house: House) -> None:
    uid = deploy(house)

    house.client.publish(uid, make_envelope("straight to the memory", sender="dispatch_write"))

    wait_for(lambda: house.contents(uid), "the message is taken")
    assert house.contents(uid) == ["straight to the memory"]


def test_many_published_messages_are_taken_once_and_in_order(house: House) -> None:
    uid, count = deploy(house), 10_000
    with house.client.redis.pipeline(transaction=False) as pipe:
        for number in range(count):
            pipe.publish(swarm_of(uid, "chat"), make_envelope(f"/write {number}"))
        pipe.execute()

    wait_for(lambda: entered(house, uid) >= count, "everything is taken")
    house.client.await_quiet(uid)

    assert house.contents(uid) == [str(number) for number in range(count)]
    assert entered(house, uid) == count
