"""Retries: a message that fails for a while runs later and once, even after a restart."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.blocks.contract import Transient
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.retries import JITTER, pause_s
from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import Subscriber, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

WAITING = make_agent("keeper", "test_waits", {"memory_id": STORE}, senders="User")
ALONE = make_agent("echo", "test_waits_without_memory", senders="User")
SOON: Json = {"first_pause_s": 0.05, "longest_pause_s": 0.2, "retries": 100}  # for 20 s
NOTES = "instances/${pipeline_uid}/notes"


BUNDLES = {
    "waiting": [WAITING],
    "alone": [ALONE],
    "two": [
        make_agent("first", "memory_write", {"memory_id": STORE}, senders="User"),
        make_agent("second", "test_waits", {"memory_id": NOTES}, senders="User"),
    ],
}
UIDS = {kind: [f"{kind}{number}" for number in range(9)] for kind in BUNDLES}


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    """A worker with short pauses and the bundles of `take`, because only it has the test blocks."""
    with TestSystem() as system:
        bundles = [make_bundle(uid, *BUNDLES[kind]) for kind, uids in UIDS.items() for uid in uids]
        worker = system.start_worker(limits=SOON, bundles=bundles)
        yield system
        assert worker.stop() == 0


def take(kind: str) -> str:
    """Return the uid of a pipeline that no other test uses."""
    return UIDS[kind].pop()


def open_gate(gate: Path) -> None:
    """Let the next attempt of waiting messages succeed."""
    os.truncate(f"{gate}keeper_", 2_000_000)


def tries(gate: Path) -> int:
    """Return the number of attempts, with the successful one."""
    return sum(
        file.stat().st_size for file in gate.parent.iterdir() if file.name.startswith(gate.name)
    )


def pending(system: TestSystem, uid: str, alias: str = "memories") -> list[Any]:
    """Return the pending rows of a store."""
    if not system.store_file(uid, alias).exists():
        return []
    return system.rows(uid, "SELECT id, due, attempts FROM pending", alias)


def first_words(texts: list[str]) -> list[str]:
    return [text.split(" ")[0] for text in texts]


def test_a_transient_failure_is_retried_once_without_blocking_others(
    system: TestSystem, tmp_path: Path
) -> None:
    uid, gate = take("waiting"), tmp_path / "gate"
    idents = system.client.enter_together(uid, ["one", make_waiting("tea", gate), "two"])
    system.client.await_quiet(uid)

    waited = pending(system, uid)
    assert system.contents(uid) == ["one", "two"]
    assert [ident for ident, _, _ in waited] == [f"{uid}/{idents[1]}.again"]
    open_gate(gate)
    wait_for(lambda: not pending(system, uid), "no step is pending")

    assert first_words(system.contents(uid)) == ["one", "two", "tea"]
    assert first_words([said.text for said in system.client.log(uid) if said.sender == "User"]) == [
        "one",
        "two",
        "tea",
    ]
    assert {said.input for said in system.client.log(uid)} == set(idents)
    assert not system.dead_letters(uid)


def test_waiting_retries_are_reported(system: TestSystem, tmp_path: Path) -> None:
    uid, gate, redis = take("waiting"), tmp_path / "gate", system.client.redis

    def told(key: str) -> Any:
        reports = [
            orjson.loads(redis.get(name))
            for name in redis.scan_iter("memrelay:{workers}:*")
            if b"fence" not in name
        ]
        return [report["pipelines"].get(uid, {}).get(key) for report in reports]

    system.client.enter(uid, make_waiting("tea", gate))
    wait_for(lambda: told("waiting") == [1], "the report has one delayed message")
    open_gate(gate)
    wait_for(lambda: told("waiting") == [0], "the report has no delayed message")

    assert told("retried")[0] >= 1
    assert told("done") == [1]
    assert "it is not the time (agent keeper_, block test_waits)" in system.workers[0].output


def test_exhausted_retries_become_a_dead_letter_with_the_last_reason(
    system: TestSystem, tmp_path: Path
) -> None:
    uid, gate = take("waiting"), tmp_path / "gate"
    ident = system.client.enter(uid, make_waiting("tea at once", gate))

    (letter,) = wait_for(lambda: system.dead_letters(uid), "it is a dead letter")

    assert (letter.id, letter.error) == (
        ident,
        "it is not the time (tried 101 times; worker.retries is 100) "
        "(agent keeper_, block test_waits)",
    )
    assert tries(gate) == 101
    wait_for(lambda: not pending(system, uid), "no step is pending")
    assert not system.contents(uid) and not system.client.log(uid)


def test_a_waiting_caller_is_answered_after_the_retry(system: TestSystem, tmp_path: Path) -> None:
    uid, gate = take("waiting"), tmp_path / "gate"
    listening = system.client.redis.pubsub()
    listening.subscribe(f"reply:{{{uid}}}:me")
    ident = system.client.enter(uid, make_waiting("tea", gate, 2), reply=f"reply:{{{uid}}}:me")

    told = wait_for(
        lambda: listening.get_message(ignore_subscribe_messages=True, timeout=0.1), "a report"
    )

    report = orjson.loads(told["data"])
    assert (report["id"], report["settled"], len(report["results"])) == (ident, True, 1)
    assert tries(gate) == 3 and len(system.contents(uid)) == 1
    assert listening.get_message(timeout=0.3) is None
    listening.close()


@pytest.mark.parametrize(
    "fields", [{}, {"agent": "echo_", "swarm": ""}], ids=["said", "handed to one agent"]
)
def test_a_pipeline_without_memory_retries(
    system: TestSystem, tmp_path: Path, fields: dict[str, str]
) -> None:
    uid, gate = take("alone"), tmp_path / "gate"
    ident = system.client.enter(uid, make_waiting("tea", gate, 2), **fields)

    wait_for(lambda: any(said.sender == "echo" for said in system.client.log(uid)), "it is done")
    wait_for(lambda: not pending(system, uid, "relay"), "no step is pending")

    assert {said.input for said in system.client.log(uid)} == {ident}
    assert [said.sender for said in system.client.log(uid)] == (
        ["echo"] if fields else ["User", "echo"]
    )
    assert system.client.unacknowledged(uid) == 0


def test_only_the_failed_step_in_another_store_is_retried(
    system: TestSystem, tmp_path: Path
) -> None:
    uid, gate = take("two"), tmp_path / "gate"
    system.client.enter(uid, make_waiting("tea", gate, 2))

    wait_for(lambda: system.contents(uid, "notes"), "the second step is done")
    wait_for(lambda: not pending(system, uid), "no step is pending")

    assert len(system.contents(uid)) == len(system.contents(uid, "notes")) == 1
    assert [said.sender for said in system.client.log(uid)] == ["User", "first", "second"]


def test_a_published_message_is_live_once_despite_a_retry(
    system: TestSystem, tmp_path: Path
) -> None:
    uid, gate = take("waiting"), tmp_path / "gate"
    with Subscriber(system.client, uid) as subscriber:
        system.client.publish(uid, make_envelope(make_waiting("tea", gate, 2)))

        heard = subscriber.until(lambda payload: b'"from":"keeper"' in payload)

    assert sum(b'"from":"User"' in payload for payload in heard) == 1
    assert len(system.contents(uid)) == 1


def test_a_producer_id_is_known_while_its_message_waits(system: TestSystem, tmp_path: Path) -> None:
    uid, gate = take("waiting"), tmp_path / "gate"
    text = make_waiting("tea", gate)
    for _ in range(5):
        system.client.enter(uid, text, id="order-1")
    system.client.await_quiet(uid)
    assert len(pending(system, uid)) == 5
    open_gate(gate)
    wait_for(lambda: not pending(system, uid), "no step is pending")

    answers = [said.text for said in system.client.log(uid) if said.sender == "keeper"]
    assert len(system.contents(uid)) == 1
    assert len(answers) == 5 and len(set(answers)) == 1


def test_a_retry_survives_a_restart(tmp_path: Path) -> None:
    uid, gate, slow = make_uid(), tmp_path / "gate", {"first_pause_s": 4, "longest_pause_s": 60}
    with TestSystem() as system:
        worker = system.start_worker(limits=slow, bundles=[make_bundle(uid, WAITING)])
        system.client.enter(uid, make_waiting("tea", gate, 1))
        ((_, due, attempts),) = wait_for(lambda: pending(system, uid), "it waits")
        system.client.await_quiet(uid)
        worker.kill()
        system.start_worker(limits=slow)
        system.client.await_done(uid, system.client.enter(uid, "coffee"))
        early = time.time() * 1000 < due

        assert not early or system.contents(uid) == ["coffee"]
        wait_for(lambda: not pending(system, uid), "no step is pending")
        assert time.time() * 1000 >= due and attempts == 1
        assert sorted(first_words(system.contents(uid))) == ["coffee", "tea"]
        assert tries(gate) == 2


def test_a_retry_keeps_the_bundle_version(tmp_path: Path) -> None:
    uid, gate = make_uid(), tmp_path / "gate"
    other = make_agent("other", "test_waits", {"memory_id": NOTES}, senders="User")
    with TestSystem() as system:
        worker = system.start_worker(limits=SOON, bundles=[make_bundle(uid, WAITING)])
        system.client.enter(uid, make_waiting("tea", gate))
        wait_for(lambda: pending(system, uid), "it waits")
        worker.stop()
        both = make_bundle(uid, other, WAITING | {"agent_from": "nobody"})
        system.start_worker(limits=SOON, bundles=[both])
        system.client.await_done(uid, system.client.enter(uid, "coffee"))
        open_gate(gate)
        wait_for(lambda: not pending(system, uid), "no step is pending")

        assert (first_words(system.contents(uid)), system.contents(uid, "notes")) == (
            ["tea"],
            ["coffee"],
        )


@pytest.mark.slow
def test_a_retry_has_one_effect_when_the_worker_is_killed(
    tmp_path: Path,
) -> None:
    uid, done = make_uid(), 0
    agents = [
        make_agent(name, "test_waits", {"memory_id": memory_id}, senders="User")
        for name, memory_id in (("first", STORE), ("second", NOTES))
    ]
    with TestSystem() as system:
        worker = system.start_stepping_worker(
            armed=False, die_at=1, limits=SOON, bundles=[make_bundle(uid, *agents)]
        )

        def is_done() -> bool:
            return (
                len(system.contents(uid)) == len(system.contents(uid, "notes")) == done
                and not pending(system, uid)
                and not system.client.redis.xlen(f"pipeline:{{{uid}}}:in")
            )

        while True:
            arm(worker)
            done += 1
            system.client.enter(uid, make_waiting(f"tea{done}", tmp_path / f"gate{done}-", 1))
            if worker.lives_until(is_done):
                break
            worker = system.start_stepping_worker(armed=False, die_at=done + 1, limits=SOON)
            assert worker.lives_until(is_done)

        texts = [said.text for said in system.client.log(uid) if said.sender == "User"]
        assert done > 12 and {"put off", "committed", "sent", "confirmed"} <= set(system.steps)
        assert first_words(system.contents(uid)) == [
            f"tea{number}" for number in range(1, done + 1)
        ]
        assert sorted(set(first_words(texts))) == sorted(first_words(system.contents(uid, "notes")))
        assert not system.dead_letters(uid)


def test_a_retry_that_crashes_the_worker_becomes_a_dead_letter(
    tmp_path: Path,
) -> None:
    uid, gate, ends = make_uid(), tmp_path / "gate", 0
    mined = make_agent("keeper", "test_waits_then_crashes", {"memory_id": STORE}, senders="User")
    with TestSystem() as system:
        worker = system.start_worker(limits=SOON, bundles=[make_bundle(uid, mined)])
        ident = system.client.enter(uid, make_waiting("bomb", gate, 1))
        while not worker.lives_until(lambda: system.dead_letters(uid)):
            ends += 1
            assert ends < 6, "it goes on and on"
            worker = system.start_worker(ready=False, limits=SOON)

        (letter,) = system.dead_letters(uid)
        assert letter.id == ident and "3 times" in letter.error
        wait_for(lambda: not pending(system, uid), "no step is pending")
        assert system.contents(uid) == []


@given(st.text(), st.integers(1, 100), st.none() | st.floats())
def test_a_pause_has_a_maximum(key: str, attempts: int, after_s: float | None) -> None:
    limits, fault = WorkerLimits(), Transient("", after_s)

    pause = pause_s(fault, key, attempts, limits)

    assert 0 <= pause <= limits.longest_pause_s
    assert pause == pause_s(fault, key, attempts, limits)


def test_pauses_double_and_differ_from_message_to_message() -> None:
    limits = WorkerLimits()
    pauses = [
        [pause_s(Transient(""), f"p/{number}-0", attempts, limits) for attempts in range(1, 9)]
        for number in range(50)
    ]

    for of_one in pauses:
        assert all(2**at <= pause <= 2**at * (1 + JITTER) for at, pause in enumerate(of_one))
    assert len({of_one[0] for of_one in pauses}) == 50


def test_a_block_can_set_the_pause() -> None:
    assert [
        pause_s(Transient("", after_s), "p/1-0", 3, WorkerLimits()) for after_s in (0, 7.5, 1e9)
    ] == [0, 7.5, 300]
