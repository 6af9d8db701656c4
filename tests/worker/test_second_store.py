"""A block and an operation read a second store of their pipeline."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import orjson
import pytest

from memrelay.bus.errors import CallFailed
from memrelay.bus.request import NewCall
from memrelay.memory.engine.store import Store
from tests.memory.builders import make_store, write_all
from tests.support.bundles import Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.calls import call_all
from tests.support.system import TestSystem

OWN, OTHER = "instances/${pipeline_uid}/own", "instances/${pipeline_uid}/memories"


def bundle_of(uid: str, other: str = OTHER) -> Json:
    """Return a bundle whose block `test_reads_beside` keeps its records in the store `own`."""
    args = {"memory_id": OWN, "other": other}
    block = make_agent("reader", "test_reads_beside", args, senders="Reader")
    return make_bundle(uid, *make_commands(), block)


def look(system: TestSystem, uid: str, name: str, other: str, **how: Any) -> Any:
    """Call a test operation that reads another store."""
    how = {"store": f"instances/{uid}/own"} | how
    given = orjson.dumps({"other": other, "write": how.pop("write", False)})
    call = NewCall(uid, name, given, name == "trials.compare", actor="tester", **how)
    (answer,) = call_all(system, call)
    return answer.get("output") or answer["error"]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[TestSystem, str]]:
    """A system with a pipeline that has one record."""
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[bundle_of(uid)])
        system.client.answer(uid, "/write tea")
        yield system, uid


def test_a_block_reads_another_store_of_its_pipeline(served: tuple[TestSystem, str]) -> None:
    system, uid = served
    assert system.client.answer(uid, "hello", sender="Reader") == ["tea"]
    assert "hello" in system.contents(uid, "own")


def test_an_operation_reads_another_store_of_its_pipeline(served: tuple[TestSystem, str]) -> None:
    system, uid = served
    for name in ("trials.look", "trials.compare"):
        assert look(system, uid, name, f"instances/{uid}/memories") == {"items": ["tea"]}


@pytest.mark.parametrize("name", ["trials.look", "trials.compare"])
@pytest.mark.parametrize(
    "other", ["instances/another/memories", "instances/{uid}/stores", "instances/{uid}/nothing", ""]
)
def test_any_other_store_is_refused(served: tuple[TestSystem, str], name: str, other: str) -> None:
    system, uid = served
    error = look(system, uid, name, other.format(uid=uid))
    assert error["code"] == "refused" and f"pipeline {uid} has no store" in error["detail"]


def test_an_operation_that_writes_there_fails_and_changes_nothing(
    served: tuple[TestSystem, str],
) -> None:
    system, uid = served
    own, other = system.contents(uid, "own"), f"instances/{uid}/memories"
    error = look(system, uid, "trials.look", other, write=True)
    assert error["code"] == "broken" and "is open only for reads" in error["detail"]
    with pytest.raises(CallFailed, match="is open only for reads"):
        look(system, uid, "trials.compare", other, write=True)
    assert (system.contents(uid), system.contents(uid, "own")) == (["tea"], own)


def test_a_block_that_writes_there_fails_and_changes_nothing(
    served: tuple[TestSystem, str],
) -> None:
    system, uid = served
    own = system.contents(uid, "own")
    ident = system.client.enter(uid, "write there", sender="Reader")
    assert "open only for reads" in system.await_dead_letter(uid, ident).error
    assert (system.contents(uid), system.contents(uid, "own")) == (["tea"], own)


def write_beside(system: TestSystem, uid: str) -> None:
    """Change the second store while no worker runs."""
    with closing(make_store(system.root, f"instances/{uid}/memories")) as store:
        assert isinstance(store, Store)
        write_all(store, "later")


def test_a_replay_after_a_crash_does_not_read_again() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[bundle_of(uid)])
        system.client.answer(uid, "/write tea")
        assert worker.stop() == 0
        worker = system.start_stepping_worker(die_on="committed")
        system.client.enter(uid, "hello", sender="Reader", id="once")
        worker.await_end()
        write_beside(system, uid)
        system.start_worker()
        system.client.await_quiet(uid)

        assert [said.text for said in system.client.log(uid) if said.sender == "reader"] == [
            '["tea"]'
        ]
        assert system.contents(uid) == ["tea", "later"]
        again = system.client.enter(uid, "hello", sender="Reader", id="once")
        system.client.await_done(uid, again)
        assert system.client.log(uid)[-1].text == '["tea"]'
        assert system.contents(uid, "own") == ["hello"]


def test_a_repeated_call_gets_the_first_answer_after_a_change() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker(bundles=[bundle_of(uid)])
        system.client.answer(uid, "/write tea")
        other = f"instances/{uid}/memories"
        first = look(system, uid, "trials.compare", other, producer_id="once")
        worker.kill()
        write_beside(system, uid)
        system.start_worker()

        assert look(system, uid, "trials.compare", other, producer_id="once") == first
        assert look(system, uid, "trials.compare", other) == {"items": ["tea", "later"]}
