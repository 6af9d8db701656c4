"""Calls of changing operations: run in order as input entries, with one effect and one answer."""

import orjson
import pytest

from memrelay.bus.errors import BusError, CallFailed, NoOwner
from memrelay.bus.request import NewCall
from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.client import input_of, make_envelope
from tests.support.house import House
from tests.support.tiers import first_always

CREATE = "records.create"


def deploy(house: House, *agents: dict[str, object]) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid, *agents))
    return uid


def test_a_record_created_by_a_call_is_found_by_messages_and_calls(
    house: House,
) -> None:
    uid = deploy(house)

    made = call(house, uid, CREATE, {"content": "tea", "tags": ["a"]})

    assert (made["content"], made["tags"], made["source"]) == ("tea", ["a"], "tester")
    assert [found["guid"] for found in house.client.answer(uid, "/search tea")] == [made["guid"]]
    assert call(house, uid, "records.get", {"guid": made["guid"]}) == made


def test_calls_and_messages_run_in_order_of_arrival(house: House) -> None:
    uid = deploy(house)
    with house.client.redis.pipeline(transaction=True) as pipe:
        for number in range(20):
            pipe.xadd(
                input_of(uid), {"op": CREATE, "data": orjson.dumps({"content": f"call {number}"})}
            )
            pipe.xadd(
                input_of(uid), {"swarm": "chat", "data": make_envelope(f"/write message {number}")}
            )
        pipe.execute()

    house.client.await_quiet(uid)

    assert house.contents(uid) == [
        f"{kind} {number}" for number in range(20) for kind in ("call", "message")
    ]


def test_the_same_key_has_one_effect_and_the_same_answer(house: House) -> None:
    uid = deploy(house)

    first = call(house, uid, CREATE, {"content": "tea"}, producer_id="order-1")
    again = call_all(
        house, *[make_call(uid, CREATE, {"content": "tea"}, producer_id="order-1")] * 50
    )

    assert [answer["output"] for answer in again] == [first] * 50
    assert house.contents(uid) == ["tea"]


def test_a_refused_call_repeats_its_answer_and_leaves_no_dead_letter(house: House) -> None:
    uid = deploy(house)

    first = refused(house, uid, "records.delete", {"guid": "nobody"}, producer_id="order-1")

    assert first[0] == "not_found" and "'nobody'" in first[1]
    assert refused(house, uid, "records.delete", {"guid": "nobody"}, producer_id="order-1") == first
    assert not house.dead_letters(uid)


def test_message_ids_and_call_keys_are_separate(house: House) -> None:
    uid = deploy(house)
    house.client.ask(uid, "/write one", id="order-1")

    made = call(house, uid, CREATE, {"content": "two"}, producer_id="order-1")

    assert made["content"] == "two"
    assert house.contents(uid) == ["one", "two"]


def test_an_invalid_input_is_refused_with_all_faults(house: House) -> None:
    code, detail = refused(house, deploy(house), CREATE, {"tags": "x", "nope": 1})

    assert code == "refused"
    assert all(name in detail for name in ("content", "tags", "nope"))


def test_an_edit_of_a_stale_version_changes_nothing(house: House) -> None:
    uid = deploy(house)
    made = call(house, uid, CREATE, {"content": "tea"})
    changed = call(
        house,
        uid,
        "records.update",
        {"guid": made["guid"], "content": "coffee", "if_version": [made["version"]]},
    )

    code, detail = refused(
        house,
        uid,
        "records.update",
        {"guid": made["guid"], "content": "milk", "if_version": [made["version"]]},
    )

    assert code == "version_differs" and changed["version"] in detail
    assert house.contents(uid) == ["coffee"]


def test_a_call_may_name_only_stores_of_its_bundle(house: House) -> None:
    notes = "instances/${pipeline_uid}/notes"
    uid, other = (
        deploy(house, *make_commands(), make_memory("write", memory_id=notes, alias="note")),
        deploy(house),
    )

    call(house, uid, CREATE, {"content": "tea"}, store=f"instances/{uid}/notes")

    assert house.contents(uid, "notes") == ["tea"] and not house.contents(uid)
    for name in (CREATE, "records.search"):
        code, detail = refused(
            house, uid, name, {"content": "x"}, store=f"instances/{other}/memories"
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
    house: House, fields: dict[str, str], reason: str
) -> None:
    uid = deploy(house)

    letter = house.await_dead_letter(uid, house.client.redis.xadd(input_of(uid), fields).decode())

    assert reason in letter.error


def test_the_caller_of_a_failed_call_gets_an_error(house: House) -> None:
    with pytest.raises(CallFailed, match="max_message_bytes"):
        call(house, deploy(house), CREATE, {"content": "x" * (1 << 20)})


def test_a_broken_operation_changes_nothing_and_fails_alone(house: House) -> None:
    uid = deploy(house)
    broken = NewCall(uid, "trials.break", b"{}", True)

    with pytest.raises(CallFailed, match="ZeroDivisionError: broken"):
        call_all(house, broken)
    made = call(house, uid, CREATE, {"content": "tea"})

    (letter,) = house.dead_letters(uid)
    assert letter.error == "trials.break: ZeroDivisionError: broken"
    assert house.contents(uid) == [made["content"]] == ["tea"]


def test_a_call_to_an_unserved_pipeline_does_nothing(house: House) -> None:
    uid = make_uid()

    for name in (CREATE, "records.list"):
        with pytest.raises(NoOwner, match="memrelay worker"):
            call(house, uid, name, {"content": "tea"})

    assert not house.client.redis.exists(input_of(uid))


@pytest.mark.parametrize(
    "step", first_always("committed", "before commit", "before sending", "sent", "confirmed")
)
def test_a_call_has_one_effect_when_the_worker_is_killed(step: str) -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_stepping_worker(die_on=step, bundles=[make_bundle(uid)])
        first = attempt(house, uid)
        worker.await_end()

        house.start_worker()
        house.client.await_quiet(uid)
        answer = call(house, uid, CREATE, {"content": "tea"}, producer_id="order-1")

        assert first in (None, answer)
        assert answer == call(house, uid, "records.get", {"guid": answer["guid"]})
        assert house.contents(uid) == ["tea"]


def attempt(house: House, uid: str) -> object:
    """Return the output of a call, or None if none arrived in time."""
    try:
        (answer,) = call_all(
            house, make_call(uid, CREATE, {"content": "tea"}, producer_id="order-1"), within_s=2
        )
    except BusError:
        return None
    return answer["output"]


def test_a_waiting_caller_is_answered_by_the_next_worker() -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_stepping_worker(die_on="committed", bundles=[make_bundle(uid)])
        house.client.redis.xadd(
            input_of(uid),
            {"op": CREATE, "data": b'{"content":"tea"}', "reply": f"reply:{{{uid}}}:me"},
        )
        listening = house.client.redis.pubsub()
        listening.subscribe(f"reply:{{{uid}}}:me")
        worker.await_end()

        house.start_worker()

        received = (listening.get_message(timeout=0.1) for _ in range(100))
        reply = next(one for one in received if one and one["type"] == "message")
        listening.close()
        assert orjson.loads(reply["data"])["answer"]["output"]["content"] == "tea"
        assert house.contents(uid) == ["tea"]
