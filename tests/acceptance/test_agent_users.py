"""Users and episodes of agents, against a running product."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.calls import call
from tests.support.system import TestSystem

ADA = {"message": {"from": {"id": 7, "first_name": "Ada"}}}


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker()
        yield system


@pytest.fixture
def uid(system: TestSystem) -> str:
    """A pipeline that identifies users, without any memory."""
    uid = make_uid()
    agents = [
        make_agent("who", "identify_user", {}, senders="User"),
        make_agent("passes", "identify_user", {"forward": True}, senders="User", to="known"),
    ]
    system.deploy(make_bundle(uid, *agents))
    return uid


def identify(system: TestSystem, uid: str, trigger: Any) -> dict[str, Any]:
    said = system.client.ask(uid, orjson.dumps(trigger).decode())
    (answered,) = [one.text for one in said if one.sender == "who"]
    return orjson.loads(answered)


def test_08_a_user_is_identified_and_new_once(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_agent("who", "identify_user", {}, senders="User")))

    first, again = identify(system, uid, ADA), identify(system, uid, ADA)

    assert (first["user_id"], first["is_new_user"]) == ("telegram:7", True)
    assert (again["user_id"], again["is_new_user"]) == ("telegram:7", False)


def test_fault_4_actions_and_preferences_are_kept(system: TestSystem, uid: str) -> None:
    identify(system, uid, ADA)
    guid = call(system, uid, "episodes.begin", {"agent_id": f"workflow:{uid}"})["id"]
    for number in range(3):
        step = {"id": guid, "sort": "action", "tool": f"tool {number}"}
        call(system, uid, "episodes.add", step)
        change = {"id": "telegram:7", "preferences": {f"p{number}": number}}
        call(system, uid, "users.update", change)

    steps = call(system, uid, "episodes.get", {"id": guid})["steps"]
    user = call(system, uid, "users.get", {"id": "telegram:7"})

    assert [one["tool"] for one in steps] == ["tool 0", "tool 1", "tool 2"]
    assert user["preferences"] == {"p0": 0, "p1": 1, "p2": 2}


def test_fault_5_the_history_has_the_episodes_of_the_user(system: TestSystem, uid: str) -> None:
    for ident, text in (("telegram:7", "tea"), ("telegram:8", "coffee")):
        begun = {"agent_id": "workflow:any", "user_id": ident, "trigger_input": text}
        guid = call(system, uid, "episodes.begin", begun)["id"]
        done = {"id": guid, "success": True, "final_output": "fine"}
        call(system, uid, "episodes.complete", done)

    history = identify(system, uid, ADA)["user_context"]["history"]

    assert [(one["summary"], one["success"]) for one in history] == [("tea → fine", True)]


def test_fault_7_nobody_is_unknown(system: TestSystem, uid: str) -> None:
    triggers = [{"user_id": "u1", "source": "gateway"}, {"user_id": "u2"}, {}, {"webhook_id": "w"}]

    found = [identify(system, uid, trigger)["user_id"] for trigger in triggers]
    system.client.ask(uid, "hello")

    assert found == ["gateway:u1", "user:u2", None, None]
    listed = call(system, uid, "users.list")
    assert {one["canonical_id"] for one in listed["items"]} == {
        "chat:User",
        "gateway:u1",
        "user:u2",
    }


def test_forwarded_messages_carry_the_user(system: TestSystem, uid: str) -> None:
    system.client.ask(uid, orjson.dumps(ADA).decode())

    (part,) = system.client.log(uid, "known")[-1].envelope["args"]
    assert part["user_id"] == "telegram:7"
    assert (part["text"], part["trigger"]) == ("", ADA)
    assert part["user_context"]["display_name"] == "Ada"


def test_concurrent_identifications_make_one_user(system: TestSystem, uid: str) -> None:
    given = {"channel": "telegram", "channel_id": "9"}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: call(system, uid, "users.identify", given), range(16)))

    assert sum(one["is_new_user"] for one in found) == 1
    assert len({one["user"]["id"] for one in found}) == 1
    user = call(system, uid, "users.get", {"id": "telegram:9"})
    assert user["total_conversations"] == 16
