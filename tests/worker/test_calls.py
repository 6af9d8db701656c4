"""Calls of changing operations: run in order as input entries, with one effect and one answer."""

import orjson
import pytest

from memrelay.bus.errors import BusError, CallFailed, NoOwner
from memrelay.bus.request import NewCall
from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.tiers import first_always

CREATE = "records.create"


def deploy(system: TestSystem, *agents: dict[str, object]) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
    return uid


def test_a_record_created_by_a_call_is_found_by_messages_and_calls(
    system: TestSystem,
) -> None:
    uid = deploy(system)

    made = call(system, uid, CREATE, {"content": "tea", "tags": ["a"]})

    assert (made["content"], made["tags"], made["source"]) == ("tea", ["a"], "tester")
    assert [found["guid"] for found in system.client.answer(uid, "/search tea")] == [made["guid"]]
    assert call(system, uid, "records.get", {"guid": made["guid"]}) == made


def test_calls_and_messages_run_in_order_of_arrival(system: TestSystem) -> None:
    uid = deploy(system)
    with system.client.redis.pipeline(transaction=True) as pipe:
        for number in range(20):
            pipe.xadd(
                input_of(uid), {"op": CREATE, "data": orjson.dumps({"content": f"call {number}"})}
            )
            pipe.xadd(
                input_of(uid), {"swarm": "chat", "data": make_envelope(f"/write message {number}")}
            )
        pipe.execute()

    system.client.await_quiet(uid)

    assert system.contents(uid) == [
        f"{kind} {number}" for number in range(20) for kind in ("call", "message")
    ]


def test_the_same_key_has_one_effect_and_the_same_answer(system: TestSystem) -> None:
    uid = deploy(system)

    first = call(system, uid, CREATE, {"content": "tea"}, producer_id="order-1")
    again = call_all(
        system, *[make_call(uid, CREATE, {"content": "tea"}, producer_id="order-1")] * 50
    )

    assert [answer["output"] for answer in again] == [first] * 50
    assert system.contents(uid) == ["tea"]


def test_a_refused_call_repeats_its_answer_and_leaves_no_dead_letter(system: TestSystem) -> None:
    uid = deploy(system)

    first = refused(system, uid, "records.delete", {"guid": "nobody"}, producer_id="order-1")

    assert first[0] == "not_found" and "'nobody'" in first[1]
    assert (
        refused(system, uid, "records.delete", {"guid": "nobody"}, producer_id="order-1") == first
    )
    assert not system.dead_letters(uid)


def test_message_ids_and_call_keys_are_separate(system: TestSystem) -> None:
    uid = deploy(system)
    system.client.ask(uid, "/write one", id="order-1")

    made = call(system, uid, CREATE, {"content": "two"}, producer_id="order-1")

    assert made["content"] == "two"
    assert system.contents(uid) == ["one", "two"]


def test_an_invalid_input_is_refused_with_all_faults(system: TestSystem) -> None:
    code, detail = refused(system, deploy(system), CREATE, {"tags": "x", "nope": 1})

    assert code == "refused"
    assert all(name in detail for name in ("content", "tags", "nope"))


def test_an_edit_of_a_stale_version_changes_nothing(system: TestSystem) -> None:
    uid = deploy(system)
    made = call(system, uid, CREATE, {"content": "tea"})
    changed = call(
        system,
        uid,
        "records.update",
        {"guid": made["guid"], "content": "coffee", "if_version": [made["version"]]},
    )

    code, detail = refused(
        system,
        uid,
        "records.update",
        {"guid": made["guid"], "content": "milk", "if_version": [made["version"]]},
    )

    assert code == "version_differs" and changed["version"] in detail
    assert system.contents(uid) == ["coffee"]


def test_a_call_may_name_only_stores_of_its_bundle(system: TestSystem) -> None:
    notes = "instances/${pipeline_uid}/notes"
    uid, other = (
        deploy(system, *make_commands(), make_memory("write", memory_id=notes, alias="note")),
        deploy(system),
    )

    call(system, uid, CREATE, {"content": "tea"}, store=f"instances/{uid}/notes")

    assert system.contents(uid, "notes") == ["tea"] and not system.contents(uid)
    for name in (CREATE, "records.search"):
        code, detail = refused(
            system, uid, name, {"content": "x"}, store=f"instances/{other}/memories"
        )
        assert code == "refused" and "names no store" in detail


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"op": "records.nothing", "data": "{}"}, "no operation 'records.nothing'"),
        ({"op": "records.get", "data": "{}"}, "can be called by an input entry"),
        ({"op": CREATE, "data": b"x" * (2 << 20)}, "bus.max_message_bytes"),
        ({"op": "x" * 2000, "data": "{}"}, "at most 1024"),
    ],
)
def test_a_malformed_call_becomes_a_dead_letter(
    system: TestSystem, fields: dict[str, str], reason: str
) -> None:
    uid = deploy(system)

    letter = system.await_dead_letter(uid, system.client.redis.xadd(input_of(uid), fields).decode())

    assert reason in letter.error


def test_the_caller_of_a_failed_call_gets_an_error(system: TestSystem) -> None:
    with pytest.raises(CallFailed, match="max_message_bytes"):
        call(system, deploy(system), CREATE, {"content": "x" * (1 << 20)})


def test_a_broken_operation_changes_nothing_and_fails_alone(system: TestSystem) -> None:
    uid = deploy(system)
    broken = NewCall(uid, "trials.break", b"{}", True)

    with pytest.raises(CallFailed, match="ZeroDivisionError: broken"):
        call_all(system, broken)
    made = call(system, uid, CREATE, {"content": "tea"})

    (letter,) = system.dead_letters(uid)
    assert letter.error.splitlines()[0] == "trials.break: ZeroDivisionError: broken"
    assert system.contents(uid) == [made["content"]] == ["tea"]


def test_a_call_to_an_unserved_pipeline_does_nothing(system: TestSystem) -> None:
    uid = make_uid()

    for name in (CREATE, "records.list"):
        with pytest.raises(NoOwner, match="memrelay worker"):
            call(system, uid, name, {"content": "tea"})

    assert not system.client.redis.exists(input_of(uid))


@pytest.mark.parametrize(
    "step", first_always("committed", "before commit", "before sending", "sent", "confirmed")
)
def test_a_call_has_one_effect_when_the_worker_is_killed(step: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(die_on=step, bundles=[make_bundle(uid)])
        first = attempt(system, uid)
        worker.await_end()

        system.start_worker()
        system.client.await_quiet(uid)
        answer = call(system, uid, CREATE, {"content": "tea"}, producer_id="order-1")

        assert first in (None, answer)
        assert answer == call(system, uid, "records.get", {"guid": answer["guid"]})
        assert system.contents(uid) == ["tea"]


def attempt(system: TestSystem, uid: str) -> object:
    """Return the output of a call, or None if none arrived in time."""
    try:
        (answer,) = call_all(
            system, make_call(uid, CREATE, {"content": "tea"}, producer_id="order-1"), within_s=2
        )
    except BusError:
        return None
    return answer["output"]


def test_a_waiting_caller_is_answered_by_the_next_worker() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(die_on="committed", bundles=[make_bundle(uid)])
        system.client.redis.xadd(
            input_of(uid),
            {"op": CREATE, "data": b'{"content":"tea"}', "reply": f"reply:{{{uid}}}:me"},
        )
        listening = system.client.redis.pubsub()
        listening.subscribe(f"reply:{{{uid}}}:me")
        worker.await_end()

        system.start_worker()

        received = (listening.get_message(timeout=0.1) for _ in range(100))
        reply = next(one for one in received if one and one["type"] == "message")
        listening.close()
        assert orjson.loads(reply["data"])["answer"]["output"]["content"] == "tea"
        assert system.contents(uid) == ["tea"]
