"""A message on a public swarm reaches every listening pipeline once and in order."""

from collections.abc import Callable

import orjson
import pytest

from memrelay.bus.keys import PUBLIC, listeners_key
from memrelay.bus.public_listeners import Member
from tests.support.bundles import (
    STORE,
    Json,
    make_agent,
    make_bundle,
    make_memory,
    make_relay,
    make_uid,
)
from tests.support.client import Ear, input_of
from tests.support.house import House
from tests.support.waiting import PATIENCE_S, wait_for


@pytest.fixture
def swarm() -> str:
    """The name of a new public swarm."""
    return f"news_{make_uid()}"


def make_public(uid: str, swarm: str, *agents: Json) -> Json:
    """Return a bundle that declares a public swarm."""
    return make_bundle(uid, *agents) | {"swarms": [{"name": swarm, "visibility": "public"}]}


def make_speaker(uid: str, swarm: str) -> Json:
    """Return a bundle that publishes TEXT of `/tell TEXT` on a public swarm."""
    return make_public(uid, swarm, make_relay("tell", r"^/tell\s+(.*)", to=swarm))


def make_keeper(uid: str, swarm: str, hears: str = "dispatch_tell") -> Json:
    """Return a bundle that stores public messages and answers on its `chat`."""
    keeper = make_memory("write", hears=hears)
    return make_public(uid, swarm, keeper | {"agent_rec_swarm": swarm})


def deploy(house: House, *bundles: Json) -> list[str]:
    """Deploy bundles, wait until they are members, and return their uids."""
    house.deploy(*bundles)
    uids = [bundle["pipeline_uid"] for bundle in bundles]
    wait_for(lambda: {member.uid for member in members(house)}.issuperset(uids), "they are members")
    return uids


def members(house: House) -> list[Member]:
    return [Member.of(word) for word in house.client.redis.zrange(listeners_key(), 0, -1)]


def await_quiet(house: House, *uids: str) -> None:
    """Wait twice for empty inputs, because one pipeline may publish to another."""
    for uid in uids * 2:
        house.client.await_quiet(uid)


def test_a_public_message_reaches_all_listeners(house: House, swarm: str) -> None:
    speaker, first, second = make_uid(), make_uid(), make_uid()
    deploy(
        house, make_speaker(speaker, swarm), make_keeper(first, swarm), make_keeper(second, swarm)
    )

    for word in ("tea", "milk", "sugar"):
        house.client.enter(speaker, f"/tell {word}")
    await_quiet(house, speaker, first, second)

    assert house.contents(first) == house.contents(second) == ["tea", "milk", "sugar"]
    said = house.client.log(PUBLIC, swarm)
    assert [(one.sender, one.text) for one in said] == [
        ("dispatch_tell", word) for word in ("tea", "milk", "sugar")
    ]
    assert (
        all(one.mid.startswith(f"{speaker}/") for one in said)
        and len({one.mid for one in said}) == 3
    )
    assert house.client.log(speaker, swarm) == house.client.log(first, swarm) == []
    assert [one.sender for one in house.client.log(first)] == ["memory_write"] * 3


def test_the_public_live_copy_has_the_id_of_the_log(house: House, swarm: str) -> None:
    speaker, keeper = deploy(house, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm))

    with Ear(house.client, PUBLIC, swarm) as ear:
        for word in ("tea", "last"):
            house.client.enter(speaker, f"/tell {word}")
        heard = ear.until(lambda payload: b"last" in payload)
    await_quiet(house, speaker, keeper)

    assert [orjson.loads(payload)["mid"] for payload in heard] == [
        said.mid for said in house.client.log(PUBLIC, swarm)
    ]
    assert entered(house, keeper) == 2


def test_an_input_on_a_public_swarm_reaches_all_members(house: House, swarm: str) -> None:
    here, there = deploy(
        house, make_keeper(make_uid(), swarm, "User"), make_keeper(make_uid(), swarm, "User")
    )

    ident = house.client.enter(here, "tea", swarm=swarm)
    house.client.await_done(here, ident)
    await_quiet(house, here, there)

    assert house.contents(here) == house.contents(there) == ["tea"]
    assert [said.mid.partition(".")[0] for said in house.client.log(PUBLIC, swarm)] == [
        f"{here}/{ident}"
    ]


def test_a_repeated_producer_id_is_published_once(house: House, swarm: str) -> None:
    here, there = deploy(
        house, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm, "User")
    )

    for _ in range(3):
        house.client.await_done(here, house.client.enter(here, "tea", swarm=swarm, id="mine"))
    await_quiet(house, there)

    assert house.contents(there) == ["tea"]
    assert len({said.mid for said in house.client.log(PUBLIC, swarm)}) == 1


def test_a_repeated_mid_has_one_effect(house: House, swarm: str) -> None:
    speaker, keeper = deploy(house, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm))
    house.client.await_done(speaker, house.client.enter(speaker, "/tell tea"))
    await_quiet(house, keeper)
    (said,) = house.client.log(PUBLIC, swarm)

    again = house.client.enter_raw(
        keeper, orjson.dumps(said.envelope), swarm=swarm, id=said.mid, hop="1", published="1"
    )
    house.client.await_done(keeper, again)

    assert house.contents(keeper) == ["tea"]
    assert len(house.client.log(PUBLIC, swarm)) == 1


def test_the_hop_limit_ends_a_loop_over_two_pipelines(house: House, swarm: str) -> None:
    here, there = make_uid(), make_uid()
    ping = make_agent(
        "ping", "memory_write", {"memory_id": STORE}, hears=["User", "pong"], on=swarm, to=swarm
    )
    pong = make_agent(
        "pong", "memory_write", {"memory_id": STORE}, hears="ping", on=swarm, to=swarm
    )
    deploy(house, make_public(here, swarm, ping), make_public(there, swarm, pong))

    house.client.enter(here, "tea", swarm=swarm)
    wait_for(lambda: house.dead_letters(here) or house.dead_letters(there), "it ends")
    await_quiet(house, here, there)

    (letter,) = house.dead_letters(here) + house.dead_letters(there)
    assert "worker.max_hops" in letter.error and (letter.hop, letter.swarm) == ("32", swarm)
    assert len(house.contents(here)) + len(house.contents(there)) == 32
    assert len(house.client.log(PUBLIC, swarm)) == 33


def make_echo(uid: str, swarm: str, name: str) -> Json:
    """Return a bundle that repeats every public message, including its own."""
    return make_public(
        uid,
        swarm,
        make_agent(name, "regex_filter", {"pattern": "."}, hears="*", on=swarm, to=swarm),
    )


def make_slow_echo(uid: str, swarm: str, name: str) -> Json:
    """Return such a bundle with a step in a second store."""
    first = make_agent(f"{name}_first", "memory_write", {"memory_id": STORE}, hears="*", on=swarm)
    second = make_agent(
        name,
        "memory_write",
        {"memory_id": "instances/${pipeline_uid}/notes"},
        hears=f"{name}_first",
        to=swarm,
    )
    return make_public(uid, swarm, first, second)


@pytest.mark.parametrize("make", [make_echo, make_slow_echo])
def test_the_cascade_limit_ends_multiplying_public_answers(
    swarm: str, make: Callable[[str, str, str], Json]
) -> None:
    here, there = make_uid(), make_uid()
    with House() as house:
        house.start_worker(
            bundles=[make(here, swarm, "ping"), make(there, swarm, "pong")],
            limits={"max_cascade": 40},
        )

        house.client.enter(here, "tea", swarm=swarm)
        wait_for(lambda: house.dead_letters(here) or house.dead_letters(there), "it ends")
        await_quiet(house, here, there, here, there)

        letters = house.dead_letters(here) + house.dead_letters(there)
        assert all("worker.max_cascade" in letter.error for letter in letters)
        assert 40 <= len(house.client.log(PUBLIC, swarm)) < 400


def test_an_agent_in_another_store_publishes_in_public(house: House, swarm: str) -> None:
    first = make_memory("write", hears="User")
    second = make_agent(
        "second",
        "memory_write",
        {"memory_id": "instances/${pipeline_uid}/notes"},
        hears="memory_write",
        to=swarm,
    )
    speaker, keeper = deploy(
        house,
        make_public(make_uid(), swarm, first, second),
        make_keeper(make_uid(), swarm, "second"),
    )

    for word in ("tea", "milk"):
        house.client.enter(speaker, word)
    wait_for(lambda: len(house.contents(keeper)) == 2, "both are received")

    assert house.contents(speaker) == ["tea", "milk"]
    assert house.contents(keeper) == [said.text for said in house.client.log(PUBLIC, swarm)]


def test_public_messages_beyond_one_multi_arrive_in_order(house: House, swarm: str) -> None:
    speaker, *keepers = deploy(
        house, make_speaker(make_uid(), swarm), *[make_keeper(make_uid(), swarm) for _ in range(3)]
    )
    texts = [f"{number} {'x' * 200_000}" for number in range(5)]

    house.client.enter_together(speaker, [f"/tell {text}" for text in texts])
    await_quiet(house, speaker, *keepers)

    assert [house.contents(keeper) for keeper in keepers] == [texts] * 3


def test_the_report_has_the_public_swarm_and_its_message(house: House, swarm: str) -> None:
    (speaker,) = deploy(house, make_speaker(make_uid(), swarm))

    answered = report_of(house, speaker, "/tell tea", "chat")
    said = report_of(house, speaker, "hello", swarm)

    assert (answered["public"], [result["from"] for result in answered["results"]]) == (
        [swarm],
        ["dispatch_tell"],
    )
    assert (said["public"], said["results"]) == ([swarm], [])


def report_of(house: House, uid: str, text: str, swarm: str) -> Json:
    channel = f"reply:{{{uid}}}:test"
    with house.client.redis.pubsub() as heard:
        heard.subscribe(channel)
        assert heard.get_message(timeout=PATIENCE_S)
        house.client.enter(uid, text, swarm=swarm, reply=channel)
        return orjson.loads(wait_for(lambda: heard.get_message(timeout=1), "the report")["data"])


def entered(house: House, uid: str) -> int:
    """Return the number of entries ever added to the input."""
    return int(house.client.redis.xinfo_stream(input_of(uid))["entries-added"])
