"""An idempotency key stands for one call: repeats get its answer, other calls are refused."""

from typing import Any

import orjson
import pytest

from memrelay.bus.errors import BusError
from memrelay.bus.request import NewCall
from memrelay.memory.operations import all_operations
from memrelay.worker.run.calls import make_digest
from memrelay.worker.run.inputs import Call
from tests.support.bundles import make_bundle, make_commands, make_memory, make_uid
from tests.support.calls import call, call_all, make_call, refused
from tests.support.house import House
from tests.support.tiers import first_always

CREATE, KEY = "records.create", {"producer_id": "order-1"}
TEA: dict[str, Any] = {"content": "tea", "data": {"a": 1, "b": [1.5, {"c": None, "d": "x"}]}}
NOTES = "instances/${pipeline_uid}/notes"


def deploy(house: House, *agents: dict[str, object]) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid, *agents))
    return uid


@pytest.mark.parametrize(
    ("name", "given"),
    [
        (CREATE, {"content": "coffee"}),
        (CREATE, TEA | {"tags": ["a"]}),
        (CREATE, TEA | {"data": {"a": 1.0}}),
        (CREATE, {"nonsense": 1}),
        ("records.append", {"content": "tea"}),
        ("records.delete", {"guid": "nobody"}),
        ("entries.create", {"memory_id": "mem_x", "content": "tea"}),
        ("memories.create", {"name": "tea"}),
    ],
)
def test_a_used_key_refuses_another_input_or_operation(
    house: House, name: str, given: dict[str, Any]
) -> None:
    uid = deploy(house)
    first = call(house, uid, CREATE, TEA, **KEY)

    code, detail = refused(house, uid, name, given, **KEY)

    assert code == "key_reused"
    assert (
        "'order-1' was used" in detail
        and "a key of its own" in detail
        and "worker.producer_id_days" in detail
    )
    assert house.contents(uid) == ["tea"] and not house.dead_letters(uid)
    assert call(house, uid, CREATE, TEA, **KEY) == first


def test_an_equivalent_input_is_the_same_call(house: House) -> None:
    uid = deploy(house)
    first = call(house, uid, CREATE, TEA, **KEY)
    said = orjson.dumps(
        {"data": {"b": [1.5, {"d": "x", "c": None}], "a": 1}, "tags": [], "content": "tea"},
        option=orjson.OPT_INDENT_2,
    )

    (again,) = call_all(
        house, NewCall(uid, CREATE, said, True, actor="tester", producer_id="order-1")
    )

    assert again == {"output": first}
    assert house.contents(uid) == ["tea"]


def test_a_used_key_refuses_another_store(house: House) -> None:
    uid = deploy(house, *make_commands(), make_memory("write", memory_id=NOTES, alias="note"))
    call(house, uid, CREATE, TEA, store=f"instances/{uid}/notes", **KEY)

    code, _ = refused(house, uid, CREATE, TEA, **KEY)

    assert code == "key_reused"
    assert (house.contents(uid), house.contents(uid, "notes")) == ([], ["tea"])


def test_one_of_many_concurrent_inputs_under_a_key_wins(house: House) -> None:
    uid = deploy(house)

    answers = call_all(
        house,
        *[make_call(uid, CREATE, {"content": f"tea {number % 2}"}, **KEY) for number in range(60)],
    )

    (kept,) = house.contents(uid)
    told = [
        answer["output"]["content"] if "output" in answer else answer["error"]["code"]
        for answer in answers
    ]
    assert sorted(told) == ["key_reused"] * 30 + [kept] * 30


def test_keys_of_two_pipelines_are_separate(house: House) -> None:
    one, other = deploy(house), deploy(house)

    for uid, content in ((one, "tea"), (other, "coffee")):
        assert call(house, uid, CREATE, {"content": content}, **KEY)["content"] == content


@pytest.mark.parametrize(
    "step", first_always("committed", "before commit", "before sending", "sent", "confirmed")
)
def test_a_key_survives_a_kill_and_a_deploy(step: str) -> None:
    uid = make_uid()
    with House() as house:
        worker = house.start_stepping_worker(die_on=step, bundles=[make_bundle(uid)])
        attempt(house, uid, {"content": "tea"})
        worker.await_end()
        house.start_worker()
        house.client.await_quiet(uid)
        house.deploy(
            make_bundle(uid, *make_commands(), make_memory("write", memory_id=NOTES, alias="note"))
        )

        code, _ = refused(house, uid, CREATE, {"content": "coffee"}, **KEY)
        answer = call(house, uid, CREATE, {"content": "tea"}, **KEY)

        assert code == "key_reused" and answer["content"] == "tea"
        assert house.contents(uid) == ["tea"] and not house.contents(uid, "notes")


@pytest.mark.parametrize("step", first_always("committed", "before sending", "sent", "confirmed"))
def test_a_refused_call_is_refused_again_after_a_kill(step: str) -> None:
    uid = make_uid()
    with House() as house:
        first = house.start_worker(bundles=[make_bundle(uid)])
        call(house, uid, CREATE, {"content": "tea"}, **KEY)
        first.stop()
        worker = house.start_stepping_worker(die_on=step)
        attempt(house, uid, {"content": "coffee"})
        if step != "committed":  # it changes nothing, so nothing is committed
            worker.await_end()
            house.start_worker()
        house.client.await_quiet(uid)

        assert house.contents(uid) == ["tea"]
        assert refused(house, uid, CREATE, {"content": "coffee"}, **KEY)[0] == "key_reused"


def attempt(house: House, uid: str, given: dict[str, Any]) -> None:
    """Make a call whose answer may not arrive."""
    try:
        call_all(house, make_call(uid, CREATE, given, **KEY), within_s=2)
    except BusError:
        return


def test_a_digest_depends_on_operation_store_and_input() -> None:
    def digest(name: str, data: bytes, store: str = "", actor: str = "") -> int:
        return make_digest(Call(all_operations()[name], data, store, actor))

    same = {
        digest(CREATE, b'{"content":"x"}'),
        digest(CREATE, b' {"tags": [], "content": "\\u0078"}', actor="somebody"),
    }
    others = {
        digest(CREATE, b'{"content":"X"}'),
        digest("records.append", b'{"content":"x"}'),
        digest(CREATE, b"{}"),
        digest(CREATE, b'{"content":"x"}', "s"),
        digest(CREATE, b"x"),
        digest(CREATE, b""),
    }

    assert len(same) == 1 and len(others) == 6 and not same & others
    assert all(0 < one < 1 << 64 for one in same | others)
