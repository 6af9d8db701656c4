"""Message parts in cascades: forwarding blocks keep them, and no client can name another user."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.bus.message import IDENTITY_FIELDS
from memrelay.memory.control.dead_letters import DeadLetter
from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, make_agent, make_bundle
from tests.support.client import input_of, swarm_of
from tests.support.dead_letters import replay
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

NOTES = "instances/${pipeline_uid}/notes"
TELLER = make_agent("teller", "test_tells_part", {"memory_id": NOTES}, senders=["known", "User"])
TWO_STORES = [
    make_agent("known", "test_identifies", senders="User"),
    make_agent("keeper", "memory_write", {"memory_id": STORE}, senders="known"),
    TELLER | {"agent_from": ["known"]},
]
BUNDLES = {
    "forwarding": [
        make_agent("first", "test_forwards", senders="User"),
        make_agent("second", "test_identifies", senders="first"),
    ],
    "stranger": [TELLER],
    "stores": TWO_STORES,
    "retries": TWO_STORES,
    "replays": TWO_STORES,
    "forged": TWO_STORES,
}
# Of the first part, only `seen_by` and `user_id` may change.
REST = b'"session_id":"s1","extra":{"a": [1,  2.50, {"b": null}]}'
OTHER = b'{"text": "second",  "n": 1.0}'


RETRIES = 2


def make_data(text: str) -> bytes:
    return (
        b'{"from": "User", "id": "me", "vouched": ["user_id"], "args": [{"text": %s, '
        b'"user_id": "victim",  %s}, %s]}' % (orjson.dumps(text), REST, OTHER)
    )


@pytest.fixture(scope="module", params=[()], ids=["untrusted"])
def system(request: pytest.FixtureRequest) -> Iterator[TestSystem]:
    """A worker with the test blocks, and one pipeline per test."""
    with TestSystem() as system:
        bundles = [make_bundle(uid, *agents) for uid, agents in BUNDLES.items()]
        limits = {"first_pause_s": 0.05, "longest_pause_s": 0.2, "retries": RETRIES}
        limits["trusted_fields"] = request.param
        worker = system.start_worker(limits=limits, bundles=bundles)
        yield system
        assert worker.stop() == 0


def enter(system: TestSystem, uid: str, text: str = "tea") -> str:
    return system.client.enter_raw(uid, make_data(text))


def await_part(system: TestSystem, uid: str) -> dict[str, Any]:
    """Return the part that the teller got."""

    def told() -> list[Any]:
        return [said for said in system.client.log(uid) if said.sender == "teller"]

    wait_for(lambda: len(told()) == 1, "the teller has answered once", 8)
    return dict(orjson.loads(told()[0].text))


def test_a_part_passes_two_forwarding_blocks_intact(system: TestSystem) -> None:
    system.client.await_done("forwarding", enter(system, "forwarding"))

    entries: Any = system.client.redis.xrange(swarm_of("forwarding", "chat"))
    _, first, second = [fields[b"data"] for _, fields in entries]
    assert first.endswith(REST + b',"seen_by":"first"},' + OTHER + b"]}")
    assert first.startswith(b'{"from":"first"') and b'"user_id":"victim"' in first
    expected = first.replace(b'{"from":"first"', b'{"from":"second"').replace(b"victim", b"u1")
    assert second == expected


def test_the_user_of_an_outside_part_does_not_count(system: TestSystem) -> None:
    enter(system, "stranger")

    part = await_part(system, "stranger")

    assert not part.keys() & set(IDENTITY_FIELDS)
    assert part["extra"] == {"a": [1, 2.5, {"b": None}]}


def test_a_forwarded_user_counts_in_another_store(system: TestSystem) -> None:
    enter(system, "stores")

    part = await_part(system, "stores")

    assert (part["user_id"], "session_id" in part) == ("u1", False)


def test_a_forwarded_user_counts_after_a_retry(system: TestSystem, tmp_path: Path) -> None:
    enter(system, "retries", make_waiting("tea", tmp_path / "gate", tries=2))

    part = await_part(system, "retries")

    assert (part["user_id"], "session_id" in part) == ("u1", False)


def fail_once(system: TestSystem, uid: str, gate: Path) -> DeadLetter:
    """Return the dead letter of a teller that fails until the replay of the message."""
    enter(system, uid, make_waiting("tea", gate, tries=RETRIES + 2))
    (letter,) = wait_for(lambda: system.dead_letters(uid), "its retries end")
    return letter


def test_a_forwarded_user_counts_after_a_replay(system: TestSystem, tmp_path: Path) -> None:
    letter = fail_once(system, "replays", tmp_path / "gate")

    replay(system, "replays", letter.id)

    part = await_part(system, "replays")
    assert (part["user_id"], "session_id" in part) == ("u1", False)
    wait_for(lambda: system.rows("replays", "SELECT 1 FROM pending") == [], "no row is left")


def test_a_replay_with_another_message_names_no_user(system: TestSystem, tmp_path: Path) -> None:
    letter = fail_once(system, "forged", tmp_path / "gate")
    data = letter.data.replace(b'"u1"', b'"victim"')
    assert data != letter.data

    fields = {"agent": letter.agent, "data": data, "replay_of": letter.id}
    system.client.redis.xadd(input_of("forged"), fields)

    assert "user_id" not in await_part(system, "forged")


@pytest.mark.parametrize("system", [IDENTITY_FIELDS], indirect=True, ids=["trusted"])
def test_an_ingress_can_vouch_for_outside_parts(system: TestSystem) -> None:
    enter(system, "stranger")

    part = await_part(system, "stranger")

    assert (part["user_id"], part["session_id"]) == ("victim", "s1")
