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
from tests.support.client import Subscriber, input_of
from tests.support.system import TestSystem
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


def make_keeper(uid: str, swarm: str, senders: str = "dispatch_tell") -> Json:
    """Return a bundle that stores public messages and answers on its `chat`."""
    keeper = make_memory("write", senders=senders)
    return make_public(uid, swarm, keeper | {"agent_rec_swarm": swarm})


def deploy(system: TestSystem, *bundles: Json) -> list[str]:
    """Deploy bundles, wait until they are members, and return their uids."""
    system.deploy(*bundles)
    uids = [bundle["pipeline_uid"] for bundle in bundles]
    wait_for(
        lambda: {member.uid for member in members(system)}.issuperset(uids), "they are members"
    )
    return uids


def members(system: TestSystem) -> list[Member]:
    return [Member.of(word) for word in system.client.redis.zrange(listeners_key(), 0, -1)]


def await_quiet(system: TestSystem, *uids: str) -> None:
    """Wait twice for empty inputs, because one pipeline may publish to another."""
    for uid in uids * 2:
        system.client.await_quiet(uid)


def test_a_public_message_reaches_all_listeners(system: TestSystem, swarm: str) -> None:
    speaker, first, second = make_uid(), make_uid(), make_uid()
    deploy(
        system, make_speaker(speaker, swarm), make_keeper(first, swarm), make_keeper(second, swarm)
    )

    for word in ("tea", "milk", "sugar"):
        system.client.enter(speaker, f"/tell {word}")
    await_quiet(system, speaker, first, second)

    assert system.contents(first) == system.contents(second) == ["tea", "milk", "sugar"]
    said = system.client.log(PUBLIC, swarm)
    assert [(one.sender, one.text) for one in said] == [
        ("dispatch_tell", word) for word in ("tea", "milk", "sugar")
    ]
    assert (
        all(one.mid.startswith(f"{speaker}/") for one in said)
        and len({one.mid for one in said}) == 3
    )
    assert system.client.log(speaker, swarm) == system.client.log(first, swarm) == []
    assert [one.sender for one in system.client.log(first)] == ["memory_write"] * 3


def test_a_public_message_keeps_the_key_of_its_sender(system: TestSystem, swarm: str) -> None:
    speaker, keeper = deploy(
        system, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm)
    )
    system.client.enter(speaker, "/tell tea", via='["webhook:github", "verified", "k1"]')
    await_quiet(system, speaker, keeper)
    values = "SELECT profile, verdict, key FROM origins"
    # The keeper does not trust a signature that the speaker has checked.
    assert system.rows(keeper, values) == [("", "", "k1")]


def test_the_public_live_copy_has_the_id_of_the_log(system: TestSystem, swarm: str) -> None:
    speaker, keeper = deploy(
        system, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm)
    )

    with Subscriber(system.client, PUBLIC, swarm) as subscriber:
        for word in ("tea", "last"):
            system.client.enter(speaker, f"/tell {word}")
        heard = subscriber.until(lambda payload: b"last" in payload)
    await_quiet(system, speaker, keeper)

    assert [orjson.loads(payload)["mid"] for payload in heard] == [
        said.mid for said in system.client.log(PUBLIC, swarm)
    ]
    assert entered(system, keeper) == 2


def test_an_input_on_a_public_swarm_reaches_all_members(system: TestSystem, swarm: str) -> None:
    here, there = deploy(
        system, make_keeper(make_uid(), swarm, "User"), make_keeper(make_uid(), swarm, "User")
    )

    ident = system.client.enter(here, "tea", swarm=swarm)
    system.client.await_done(here, ident)
    await_quiet(system, here, there)

    assert system.contents(here) == system.contents(there) == ["tea"]
    assert [said.mid.partition(".")[0] for said in system.client.log(PUBLIC, swarm)] == [
        f"{here}/{ident}"
    ]


def test_a_repeated_producer_id_is_published_once(system: TestSystem, swarm: str) -> None:
    here, there = deploy(
        system, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm, "User")
    )

    for _ in range(3):
        system.client.await_done(here, system.client.enter(here, "tea", swarm=swarm, id="mine"))
    await_quiet(system, there)

    assert system.contents(there) == ["tea"]
    assert len({said.mid for said in system.client.log(PUBLIC, swarm)}) == 1


def test_a_repeated_mid_has_one_effect(system: TestSystem, swarm: str) -> None:
    speaker, keeper = deploy(
        system, make_speaker(make_uid(), swarm), make_keeper(make_uid(), swarm)
    )
    system.client.await_done(speaker, system.client.enter(speaker, "/tell tea"))
    await_quiet(system, keeper)
    (said,) = system.client.log(PUBLIC, swarm)

    again = system.client.enter_raw(
        keeper, orjson.dumps(said.envelope), swarm=swarm, id=said.mid, hop="1", published="1"
    )
    system.client.await_done(keeper, again)

    assert system.contents(keeper) == ["tea"]
    assert len(system.client.log(PUBLIC, swarm)) == 1


def test_the_hop_limit_ends_a_loop_over_two_pipelines(system: TestSystem, swarm: str) -> None:
    here, there = make_uid(), make_uid()
    ping = make_agent(
        "ping", "memory_write", {"memory_id": STORE}, senders=["User", "pong"], on=swarm, to=swarm
    )
    pong = make_agent(
        "pong", "memory_write", {"memory_id": STORE}, senders="ping", on=swarm, to=swarm
    )
    deploy(system, make_public(here, swarm, ping), make_public(there, swarm, pong))

    system.client.enter(here, "tea", swarm=swarm)
    wait_for(lambda: system.dead_letters(here) or system.dead_letters(there), "it ends")
    await_quiet(system, here, there)

    (letter,) = system.dead_letters(here) + system.dead_letters(there)
    assert "worker.max_hops" in letter.error and (letter.hop, letter.swarm) == ("32", swarm)
    assert len(system.contents(here)) + len(system.contents(there)) == 32
    assert len(system.client.log(PUBLIC, swarm)) == 33


def make_echo(uid: str, swarm: str, name: str) -> Json:
    """Return a bundle that repeats every public message, including its own."""
    return make_public(
        uid,
        swarm,
        make_agent(name, "regex_filter", {"pattern": "."}, senders="*", on=swarm, to=swarm),
    )


def make_slow_echo(uid: str, swarm: str, name: str) -> Json:
    """Return such a bundle with a step in a second store."""
    first = make_agent(f"{name}_first", "memory_write", {"memory_id": STORE}, senders="*", on=swarm)
    second = make_agent(
        name,
        "memory_write",
        {"memory_id": "instances/${pipeline_uid}/notes"},
        senders=f"{name}_first",
        to=swarm,
    )
    return make_public(uid, swarm, first, second)


@pytest.mark.parametrize("make", [make_echo, make_slow_echo])
def test_the_cascade_limit_ends_multiplying_public_answers(
    swarm: str, make: Callable[[str, str, str], Json]
) -> None:
    here, there = make_uid(), make_uid()
    with TestSystem() as system:
        system.start_worker(
            bundles=[make(here, swarm, "ping"), make(there, swarm, "pong")],
            limits={"max_cascade": 40},
        )

        system.client.enter(here, "tea", swarm=swarm)
        wait_for(lambda: system.dead_letters(here) or system.dead_letters(there), "it ends")
        await_quiet(system, here, there, here, there)

        letters = system.dead_letters(here) + system.dead_letters(there)
        assert all("worker.max_cascade" in letter.error for letter in letters)
        assert 40 <= len(system.client.log(PUBLIC, swarm)) < 400


def test_an_agent_in_another_store_publishes_in_public(system: TestSystem, swarm: str) -> None:
    first = make_memory("write", senders="User")
    second = make_agent(
        "second",
        "memory_write",
        {"memory_id": "instances/${pipeline_uid}/notes"},
        senders="memory_write",
        to=swarm,
    )
    speaker, keeper = deploy(
        system,
        make_public(make_uid(), swarm, first, second),
        make_keeper(make_uid(), swarm, "second"),
    )

    for word in ("tea", "milk"):
        system.client.enter(speaker, word)
    wait_for(lambda: len(system.contents(keeper)) == 2, "both are received")

    assert system.contents(speaker) == ["tea", "milk"]
    assert system.contents(keeper) == [said.text for said in system.client.log(PUBLIC, swarm)]


def test_public_messages_beyond_one_multi_arrive_in_order(system: TestSystem, swarm: str) -> None:
    speaker, *keepers = deploy(
        system, make_speaker(make_uid(), swarm), *[make_keeper(make_uid(), swarm) for _ in range(3)]
    )
    texts = [f"{number} {'x' * 200_000}" for number in range(5)]

    system.client.enter_together(speaker, [f"/tell {text}" for text in texts])
    await_quiet(system, speaker, *keepers)

    assert [system.contents(keeper) for keeper in keepers] == [texts] * 3


def test_the_report_has_the_public_swarm_and_its_message(system: TestSystem, swarm: str) -> None:
    (speaker,) = deploy(system, make_speaker(make_uid(), swarm))

    answered = report_of(system, speaker, "/tell tea", "chat")
    said = report_of(system, speaker, "hello", swarm)

    assert (answered["public"], [result["from"] for result in answered["results"]]) == (
        [swarm],
        ["dispatch_tell"],
    )
    assert (said["public"], said["results"]) == ([swarm], [])


def report_of(system: TestSystem, uid: str, text: str, swarm: str) -> Json:
    channel = f"reply:{{{uid}}}:test"
    with system.client.redis.pubsub() as heard:
        heard.subscribe(channel)
        assert heard.get_message(timeout=PATIENCE_S)
        system.client.enter(uid, text, swarm=swarm, reply=channel)
        return orjson.loads(wait_for(lambda: heard.get_message(timeout=1), "the report")["data"])


def entered(system: TestSystem, uid: str) -> int:
    """Return the number of entries ever added to the input."""
    return int(system.client.redis.xinfo_stream(input_of(uid))["entries-added"])
