"""records.erase leaves erased content in no file, even after a crash or under load."""

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from memrelay.bus.streams.purge import PAGE
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.worker.background.erasure import FIRST_PAUSE_S
from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.calls import call, refused
from tests.support.client import input_of, make_envelope
from tests.support.deferred_calls import Service
from tests.support.erasures import await_erasure, files_with
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for
from tests.support.worker_reports import await_report, start_command, type_command

CANARIES = ("zwitscherling-one", "zwitscherling-two", "zwitscherling-three")
WORD = b"zwitscherling"


@pytest.fixture
def empty() -> Iterator[TestSystem]:
    with TestSystem() as system:
        yield system


def holding(system: TestSystem, word: bytes = WORD) -> list[str]:
    return files_with(system, word)


def fill(system: TestSystem, uid: str) -> str:
    """Create a record that versions, messages, a retry and a dead letter quote; return its guid."""
    made = call(
        system, uid, "records.create", {"content": f"the first is {CANARIES[0]}", "kind": "secret"}
    )
    call(
        system,
        uid,
        "records.update",
        {"guid": made["guid"], "content": f"the second is {CANARIES[1]}"},
    )
    system.client.answer(uid, f"/append and then {CANARIES[2]}")
    system.client.ask(uid, f"/write the first is {CANARIES[0]} again", id="producers-own")
    system.client.answer(uid, "/search second")
    call(system, uid, "records.create", {"content": "the kept rows"}, producer_id="kept")
    asyncio.run(add_dead_letters(system, uid))
    return made["guid"]


async def add_dead_letters(system: TestSystem, uid: str) -> None:
    async with Catalog(system.root) as catalog:
        for ident, text in (("1-0", f"/write {CANARIES[0]}"), ("2-0", "/write what is kept")):
            await catalog.dead_letters.add(
                [DeadLetter(uid, ident, "chat", make_envelope(text), "broken", "hash", 0)]
            )


def test_erased_content_is_in_no_file(empty: TestSystem) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])
    fill(empty, uid)
    (left := empty.root / ".scrub-left").mkdir()  # left by a killed scrub
    for copy in (
        left / "copy",
        empty.store_file(uid).with_name(".memories.db.restored"),
        empty.root / ".system.db.restored",
    ):
        shutil.copyfile(empty.store_file(uid), copy)  # the others were left by a killed restore
    before = holding(empty)

    erased = call(empty, uid, "records.erase", {"text": "zwitscherling", "reason": "asked for"})

    told = await_erasure(empty, uid)
    assert any("memories.db" in name for name in before) and any(
        "system.db" in name for name in before
    )
    assert any("appendonly" in name for name in before)
    assert (erased["records"], erased["versions"]) == (3, 1)
    assert (told["letters"], told["left_over"], told["reason"], told["actor"]) == (
        1,
        "",
        "asked for",
        "tester",
    )
    assert told["messages"] >= 5 and told["replies"] >= 1
    assert holding(empty) == []
    assert empty.contents(uid) == ["the kept rows"] and [
        one.id for one in empty.dead_letters(uid)
    ] == ["2-0"]
    assert [found["content"] for found in empty.client.answer(uid, "/search kept")] == [
        "the kept rows"
    ]
    assert any("the kept rows" in said.text for said in empty.client.log(uid))


def test_erasure_by_guid_and_filter_removes_all_quotes(empty: TestSystem) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])
    first = empty.client.answer(uid, f"/write the first is {CANARIES[0]}")["guid"]
    empty.client.answer(uid, "/search first")
    call(empty, uid, "records.append", {"guid": first, "content": f"more of {CANARIES[1]}"})
    second = call(
        empty,
        uid,
        "records.create",
        {"content": f"deleted {CANARIES[2]}", "kind": "secret", "owner": "ada"},
    )["guid"]
    call(empty, uid, "records.delete", {"guid": second})

    call(
        empty,
        uid,
        "records.erase",
        {"guids": [first, "nobody"], "filter": {"owner": {"eq": "ada"}}},
    )

    await_erasure(empty, uid)
    assert holding(empty) == [] and empty.contents(uid) == []
    assert (
        holding(empty, first.encode()) == []
        and refused(empty, uid, "records.restore", {"guid": second})[0] == "not_found"
    )


@pytest.mark.parametrize(
    "step", first_always("committed", "quotes erased", "store rewritten", "erased")
)
def test_an_interrupted_erasure_continues(empty: TestSystem, step: str) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])
    fill(empty, uid)
    empty.workers[-1].stop()
    dying = empty.start_stepping_worker(die_on=step)
    empty.client.redis.xadd(
        input_of(uid), {"op": "records.erase", "data": b'{"text": "zwitscherling"}'}
    )
    wait_for(lambda: not dying.lives, "it is dead")

    empty.start_worker()

    await_erasure(empty, uid)
    assert holding(empty) == [] and empty.contents(uid) == ["the kept rows"]


def test_an_erasure_under_load_loses_no_other_message(empty: TestSystem) -> None:
    uid, over, written = make_uid(), threading.Event(), list[str]()
    empty.start_worker(bundles=[make_bundle(uid)])
    fill(empty, uid)

    def load() -> None:
        while not over.is_set():
            written.append(f"load {len(written)}")
            empty.client.redis.xadd(
                input_of(uid), {"swarm": "chat", "data": make_envelope(f"/write {written[-1]}")}
            )
            time.sleep(0.005)

    thread = threading.Thread(target=load)
    thread.start()
    call(empty, uid, "records.erase", {"text": "zwitscherling"})
    await_erasure(empty, uid)
    over.set()
    thread.join()

    empty.client.await_quiet(uid)
    assert holding(empty) == []
    assert empty.contents(uid) == ["the kept rows", *written]


def test_an_erasure_drops_waiting_retries(empty: TestSystem, tmp_path: Path) -> None:
    uid, gate = make_uid(), tmp_path / "gate"
    agent = make_agent("keeper", "test_waits", {"memory_id": STORE}, senders="User")
    empty.start_worker(
        limits={"first_pause_s": 0.2, "longest_pause_s": 0.4, "retries": 400},
        bundles=[make_bundle(uid, agent)],
    )
    empty.client.enter(uid, make_waiting("zwitscherling waits", gate))
    empty.client.enter(uid, "another")
    wait_for(
        lambda: empty.contents(uid) == ["another"] and empty.rows(uid, "SELECT id FROM pending"),
        "it waits",
    )

    call(empty, uid, "records.erase", {"text": "zwitscherling"})

    await_erasure(empty, uid)
    os.truncate(f"{gate}keeper_", 2_000_000)
    time.sleep(0.8)
    assert empty.contents(uid) == ["another"] and not empty.rows(uid, "SELECT id FROM pending")
    assert holding(empty) == []


def test_an_erasure_drops_deferred_calls(empty: TestSystem) -> None:
    uid, running, waiting = make_uid(), "zwitscherling runs@1", "zwitscherling waits@1"
    agent = make_agent("keeper", "test_asks", {}, senders="User", to="answers")
    empty.start_worker(bundles=[make_bundle(uid, agent)])
    with Service() as service:
        service.hold.clear()
        for text in (running, waiting, "tea@2"):
            empty.client.enter(uid, f"{service.url} {text}")
        wait_for(lambda: len(service.asked) == 2, "two deferred calls run")

        call(empty, uid, "records.erase", {"text": "zwitscherling"})

        await_erasure(empty, uid)
        service.hold.set()
        wait_for(lambda: not empty.rows(uid, "SELECT id FROM pending", "relay"), "all have ended")
        assert [said.text for said in empty.client.log(uid, "answers")] == ["tea@2"]
        assert sorted(service.texts) == ["tea@2", running]
        assert holding(empty) == []


def test_an_erasure_drops_requests_and_results_of_deferred_calls(
    empty: TestSystem, tmp_path: Path
) -> None:
    uid, aside = make_uid(), tmp_path / "aside"
    agent = make_agent("keeper", "test_asks_aside", {}, senders="User", to="answers")
    limits = {"first_pause_s": 1.0, "longest_pause_s": 1.0}
    empty.start_worker(limits=limits, bundles=[make_bundle(uid, agent)])
    with Service(WORD) as service:
        aside.write_text(f"{service.url} tea@1")
        empty.client.enter(uid, str(aside))
        wait_for(lambda: tried(aside), "a result waits for a retry")
        aside.write_text(f"{service.url} {CANARIES[0]}@2")
        service.hold.clear()
        for _ in range(2):
            empty.client.enter(uid, str(aside))
        wait_for(lambda: len(service.asked) == 2, "one deferred call runs, and one waits")

        call(empty, uid, "records.erase", {"text": "zwitscherling"})

        await_erasure(empty, uid)
        service.hold.set()
        wait_for(lambda: not empty.rows(uid, "SELECT id FROM pending", "relay"), "all have ended")
        time.sleep(1.0)
        assert empty.client.log(uid, "answers") == [] and tried(aside) == 1
        assert len(service.asked) == 2 and holding(empty) == []


def tried(aside: Path) -> int:
    """Return how often the block got a result."""
    tries = Path(f"{aside}.tries")
    return tries.stat().st_size if tries.exists() else 0


def test_an_erasure_covers_idempotency_keys(empty: TestSystem, tmp_path: Path) -> None:
    uid, gate, key = make_uid(), tmp_path / "gate", "order of zwitscherling"
    agent = make_agent("keeper", "test_waits", {"memory_id": STORE}, senders="User")
    empty.start_worker(
        limits={"first_pause_s": 0.5, "longest_pause_s": 1.0, "retries": 100},
        bundles=[make_bundle(uid, agent)],
    )
    for text, ident in ((make_waiting("it waits", gate), f"{key} 1"), ("the first", key)):
        empty.client.enter(uid, text, id=ident)
    call(empty, uid, "records.create", {"content": "the second"}, producer_id=key)
    empty.client.enter_raw(uid, b"broken", id=key)
    wait_for(
        lambda: empty.dead_letters(uid) and empty.rows(uid, "SELECT id FROM pending"),
        "one waits and one is a dead letter",
    )
    empty.client.await_quiet(uid)
    before = holding(empty)

    call(empty, uid, "records.erase", {"text": "zwitscherling"})

    told = await_erasure(empty, uid)
    for word in ("system.db", "memories.db", "appendonly"):
        assert any(word in name for name in before), before
    assert (holding(empty), told["letters"], told["replies"]) == ([], 1, 1)
    empty.client.await_done(uid, empty.client.enter(uid, "not again", id=key))
    assert empty.contents(uid) == ["the first", "the second"]


def test_a_short_content_does_not_match_longer_messages(empty: TestSystem) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])
    empty.client.answer(uid, "/write tea")
    empty.client.answer(uid, "/write tea and cake")

    call(empty, uid, "records.erase", {"filter": {"content": {"eq": "tea"}}})

    await_erasure(empty, uid)
    said = [one.text for one in empty.client.log(uid)]
    assert "/write tea and cake" in said and "/write tea" not in said
    assert empty.contents(uid) == ["tea and cake"]


def test_an_erasure_reads_each_message_once_and_reports_progress(empty: TestSystem) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])
    guid = empty.client.answer(uid, f"/write {CANARIES[0]}")["guid"]
    with empty.client.redis.pipeline(transaction=False) as pipe:
        for number in range(5000):
            pipe.xadd(f"swarm:{{{uid}}}:chat", {"data": make_envelope(f"tea {number}")})
        pipe.execute()
    pages, before = 5000 // PAGE, count_reads(empty)

    erased = type_command(empty, "erase", uid, "--guid", guid)

    assert pages <= count_reads(empty) - before < 1.5 * pages
    assert "the worker now erases messages that quote them" in erased.stderr
    assert erased.stdout.startswith("erased 1 record, ") and holding(empty) == []


def count_reads(system: TestSystem) -> int:
    return int(
        system.client.redis.info("commandstats").get("cmdstat_xrange", {"calls": 0})["calls"]
    )


def test_an_erasure_without_criteria_is_refused(empty: TestSystem) -> None:
    uid = make_uid()
    empty.start_worker(bundles=[make_bundle(uid)])

    code, detail = refused(empty, uid, "records.erase", {"reason": "x"})

    assert code == "refused" and "no condition selects records" in detail


@pytest.mark.slow
def test_a_waiting_erasure_is_visible_and_its_command_survives_a_restart(empty: TestSystem) -> None:
    uid = make_uid()
    worker = empty.start_worker(bundles=[make_bundle(uid)])
    call(empty, uid, "records.create", {"content": CANARIES[0]})
    reader = apsw.Connection(str(empty.store_file(uid)))
    reader.execute("BEGIN; SELECT * FROM records")
    erasing = start_command(empty, "erase", uid, "--text", CANARIES[0])
    reason = "the log of the store cannot be emptied"

    await_report(
        empty, uid, lambda report: reason in report["erasure_fault"], "the fault is reported"
    )
    wait_for(lambda: f"pause_s={2 * FIRST_PAUSE_S}" in worker.output, "the pauses grow")
    shown = [type_command(empty, name).stdout for name in ("status", "doctor")]
    worker.stop()
    reader.close()
    empty.start_worker()

    assert erasing.await_end() == 0
    assert "erased 1 record," in erasing.output
    assert all(reason in one for one in shown)
    await_report(
        empty,
        uid,
        lambda report: not report["erasure_fault"] and not report["erasure_pending"],
        "the fault is gone",
    )
