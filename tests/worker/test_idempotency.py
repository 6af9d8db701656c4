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
from tests.support.system import TestSystem
from tests.support.tiers import first_always

CREATE, KEY = "records.create", {"producer_id": "order-1"}
TEA: dict[str, Any] = {"content": "tea", "data": {"a": 1, "b": [1.5, {"c": None, "d": "x"}]}}
NOTES = "instances/${pipeline_uid}/notes"


def deploy(system: TestSystem, *agents: dict[str, object]) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
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
    system: TestSystem, name: str, given: dict[str, Any]
) -> None:
    uid = deploy(system)
    first = call(system, uid, CREATE, TEA, **KEY)

    code, detail = refused(system, uid, name, given, **KEY)

    assert code == "key_reused"
    assert (
        "'order-1' was used" in detail
        and "a key of its own" in detail
        and "worker.producer_id_days" in detail
    )
    assert system.contents(uid) == ["tea"] and not system.dead_letters(uid)
    assert call(system, uid, CREATE, TEA, **KEY) == first


def test_an_equivalent_input_is_the_same_call(system: TestSystem) -> None:
    uid = deploy(system)
    first = call(system, uid, CREATE, TEA, **KEY)
    said = orjson.dumps(
        {"data": {"b": [1.5, {"d": "x", "c": None}], "a": 1}, "tags": [], "content": "tea"},
        option=orjson.OPT_INDENT_2,
    )

    (again,) = call_all(
        system, NewCall(uid, CREATE, said, True, actor="tester", producer_id="order-1")
    )

    assert again == {"output": first}
    assert system.contents(uid) == ["tea"]


def test_a_used_key_refuses_another_store(system: TestSystem) -> None:
    uid = deploy(system, *make_commands(), make_memory("write", memory_id=NOTES, alias="note"))
    call(system, uid, CREATE, TEA, store=f"instances/{uid}/notes", **KEY)

    code, _ = refused(system, uid, CREATE, TEA, **KEY)

    assert code == "key_reused"
    assert (system.contents(uid), system.contents(uid, "notes")) == ([], ["tea"])


def test_one_of_many_concurrent_inputs_under_a_key_wins(system: TestSystem) -> None:
    uid = deploy(system)

    answers = call_all(
        system,
        *[make_call(uid, CREATE, {"content": f"tea {number % 2}"}, **KEY) for number in range(60)],
    )

    (kept,) = system.contents(uid)
    told = [
        answer["output"]["content"] if "output" in answer else answer["error"]["code"]
        for answer in answers
    ]
    assert sorted(told) == ["key_reused"] * 30 + [kept] * 30


def test_keys_of_two_pipelines_are_separate(system: TestSystem) -> None:
    one, other = deploy(system), deploy(system)

    for uid, content in ((one, "tea"), (other, "coffee")):
        assert call(system, uid, CREATE, {"content": content}, **KEY)["content"] == content


@pytest.mark.parametrize(
    "step", first_always("committed", "before commit", "before sending", "sent", "confirmed")
)
def test_a_key_survives_a_kill_and_a_deploy(step: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(die_on=step, bundles=[make_bundle(uid)])
        attempt(system, uid, {"content": "tea"})
        worker.await_end()
        system.start_worker()
        system.client.await_quiet(uid)
        system.deploy(
            make_bundle(uid, *make_commands(), make_memory("write", memory_id=NOTES, alias="note"))
        )

        code, _ = refused(system, uid, CREATE, {"content": "coffee"}, **KEY)
        answer = call(system, uid, CREATE, {"content": "tea"}, **KEY)

        assert code == "key_reused" and answer["content"] == "tea"
        assert system.contents(uid) == ["tea"] and not system.contents(uid, "notes")


@pytest.mark.parametrize("step", first_always("committed", "before sending", "sent", "confirmed"))
def test_a_refused_call_is_refused_again_after_a_kill(step: str) -> None:
    uid = make_uid()
    with TestSystem() as system:
        first = system.start_worker(bundles=[make_bundle(uid)])
        call(system, uid, CREATE, {"content": "tea"}, **KEY)
        first.stop()
        worker = system.start_stepping_worker(die_on=step)
        attempt(system, uid, {"content": "coffee"})
        if step != "committed":  # it changes nothing, so nothing is committed
            worker.await_end()
            system.start_worker()
        system.client.await_quiet(uid)

        assert system.contents(uid) == ["tea"]
        assert refused(system, uid, CREATE, {"content": "coffee"}, **KEY)[0] == "key_reused"


def attempt(system: TestSystem, uid: str, given: dict[str, Any]) -> None:
    """Make a call whose answer may not arrive."""
    try:
        call_all(system, make_call(uid, CREATE, given, **KEY), within_s=2)
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
