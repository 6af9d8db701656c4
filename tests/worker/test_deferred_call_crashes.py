"""Deferred calls, crashes, stops and deploys: which requests are repeated, and with which id."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import orjson
import pytest

from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, Json, make_agent, make_bundle
from tests.support.dead_letters import replay
from tests.support.deferred_calls import Service
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

UID = "asking"
STORED = "deferred call result stored"


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        yield system


def make_asking(block: str = "test_asks") -> Json:
    return make_bundle(UID, make_agent("asker", block, senders="User"))


def find_answers(system: TestSystem, count: int = 1) -> list[str]:
    """Return the answers if there are enough and nothing is pending. A crash may repeat an answer
    under its id.
    """
    answers = {said.mid: said.text for said in system.client.log(UID) if said.sender == "asker"}
    found = [*answers.values()]
    is_over = len(found) >= count and system.rows(UID, "SELECT id FROM pending", "relay") == []
    return found if is_over else []


def await_answers(system: TestSystem, count: int = 1) -> list[str]:
    return wait_for(lambda: find_answers(system, count), f"{count} answers")


def test_a_stored_result_is_never_requested_again(system: TestSystem, service: Service) -> None:
    worker = system.start_stepping_worker(bundles=[make_asking()], die_on=STORED)
    system.client.enter(UID, f"{service.url} tea")
    worker.await_end()

    system.start_worker()

    assert await_answers(system) == ["tea"]
    assert service.texts == ["tea"]


@pytest.mark.parametrize("block", ["test_asks", "test_fetches"])
def test_a_request_without_a_result_is_repeated_under_the_same_id(
    system: TestSystem, service: Service, block: str
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking(block)])
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    worker.kill()
    system.start_worker()

    wait_for(lambda: len(service.asked) == 2, "it is asked again")
    service.hold.set()
    assert await_answers(system) == ["tea"]
    assert len(set(service.asked)) == 1


@pytest.mark.slow
def test_a_crash_at_any_step_leaves_one_answer_and_at_most_one_repetition(
    service: Service,
) -> None:
    for number in count(1):
        service.asked.clear()
        with TestSystem() as system:
            worker = system.start_stepping_worker(
                bundles=[make_asking()], armed=False, die_at=number
            )
            skipped = len(system.steps)
            arm(worker)
            system.client.enter(UID, f"{service.url} tea")
            if worker.lives_until(lambda system=system: find_answers(system)):
                break
            steps = system.steps[skipped:]
            system.start_worker()

            assert await_answers(system) == ["tea"], steps
            most = 1 if STORED in steps else 2
            assert 1 <= len(service.asked) <= most and len(set(service.asked)) == 1, steps
    assert number > 5


def test_a_deploy_without_the_block_neither_ends_nor_repeats_a_deferred_call(
    system: TestSystem, service: Service
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking()])
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    system.deploy(make_bundle(UID, make_agent("adder", "add_1", senders="Adder")))
    wait_for(lambda: worker.output.count("pipelines_served") == 2, "it is deployed")
    assert [said.text for said in system.client.ask(UID, "1", sender="Adder")] == ["1", "2"]
    service.hold.set()

    assert await_answers(system) == ["tea"]
    assert len(service.asked) == 1


def test_a_lost_bus_repeats_no_request(system: TestSystem, service: Service) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking()])
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    system.kill_server()
    wait_for(lambda: "bus_lost" in worker.output, "the worker notices it")
    system.server.start()
    service.hold.set()
    wait_for(lambda: worker.output.count("pipelines_served") == 2, "it is back")

    assert await_answers(system) == ["tea"]
    assert len(service.asked) == 1


def test_a_stopping_worker_awaits_a_short_deferred_call(
    system: TestSystem, service: Service
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking()])
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    worker.terminate()
    time.sleep(0.2)
    service.hold.set()

    assert worker.await_end() == 0
    system.start_worker()
    assert await_answers(system) == ["tea"]
    assert len(service.asked) == 1


def test_a_stopping_worker_leaves_a_long_deferred_call_to_the_next_one(
    system: TestSystem, service: Service
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking()], limits={"grace_s": 1})
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    assert worker.stop() == 0
    assert "stopped_with_work_pending" not in worker.output
    service.hold.set()
    system.start_worker()

    assert await_answers(system) == ["tea"]
    assert len(service.asked) == 2 and len(set(service.asked)) == 1


def test_an_executor_that_ends_the_worker_fails_after_three_repetitions(
    system: TestSystem, service: Service
) -> None:
    worker, crashes = system.start_worker(bundles=[make_asking()]), 0
    system.client.enter(UID, f"{service.url} crash the worker")
    system.client.enter(UID, f"{service.url} tea")
    while not worker.lives_until(lambda: len(system.client.log(UID)) >= 4):
        crashes += 1
        worker = system.start_worker(ready=False)

    failed, answer = await_answers(system, 2)
    assert "the worker ended more than 3 times" in orjson.loads(failed)["error"]
    assert (crashes, answer, system.dead_letters(UID)) == (4, "tea", [])


def test_a_block_that_ends_the_worker_with_the_result_becomes_a_dead_letter(
    system: TestSystem, service: Service, tmp_path: Path
) -> None:
    worker = system.start_worker(bundles=[make_asking()])
    system.client.enter(UID, f"{service.url} crash the block {tmp_path / 'tries'}")
    while not worker.lives_until(lambda: system.dead_letters(UID)):
        worker = system.start_worker(ready=False)

    (letter,) = system.dead_letters(UID)
    assert "3 times" in letter.error
    assert len(service.asked) == 1


def test_the_replay_of_a_dead_letter_repeats_no_request(
    system: TestSystem, service: Service, tmp_path: Path
) -> None:
    fails = make_agent("fails", "test_fails", {"memory_id": STORE}, senders="asker")
    agents = make_asking("test_fetches")["agents"]
    system.start_worker(bundles=[make_bundle(UID, *agents, fails)])
    corrected = tmp_path / "corrected"
    ident = system.client.enter(UID, f"{service.url} mine {corrected}")
    (letter,) = wait_for(lambda: system.dead_letters(UID), "it fails")
    assert system.client.log(UID)[1:] == [] and letter.id.startswith(f"{ident}.")

    corrected.touch()
    system.client.redis.xadd(
        f"pipeline:{{{UID}}}:in",
        {"agent": letter.agent, "data": letter.data, "replay_of": letter.id},
    )

    wait_for(lambda: system.contents(UID), "the replay writes")
    assert system.contents(UID) == [f"mine {corrected}"]
    assert len(service.asked) == 1
    assert system.rows(UID, "SELECT id FROM pending") == []


def test_a_repeated_async_block_has_the_effects_of_one(
    system: TestSystem, service: Service
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking("test_notes")])
    system.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the note is stored")

    worker.kill()
    system.start_worker()
    service.hold.set()

    (answer,) = await_answers(system)
    rows = system.rows(UID, "SELECT guid FROM records", "relay")
    assert rows == [(orjson.loads(answer)["guid"],)] and len(service.asked) == 2


def test_a_replay_that_is_retried_repeats_no_request(
    system: TestSystem, service: Service, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    limits = {"retries": 1, "first_pause_s": 0.05, "longest_pause_s": 0.1}
    system.start_worker(bundles=[make_asking()], limits=limits)
    system.client.enter(UID, f"{service.url} not now {tries}")
    (letter,) = wait_for(lambda: system.dead_letters(UID), "its retries end")

    tries.write_bytes(b"")  # the next two attempts fail again
    replay(system, UID, letter.id)
    wait_for(lambda: tries.stat().st_size == 2, "the replay is tried twice")
    # The letter stays in the list during its replay.
    again = wait_for(
        lambda: next((one for one in system.dead_letters(UID) if one != letter), None),
        "it fails again",
    )
    replay(system, UID, again.id)

    assert await_answers(system) == [f"not now {tries}"]
    assert again.id == letter.id and len(service.asked) == 1
    assert system.rows(UID, "SELECT id FROM pending", "relay") == []


def test_a_deferred_call_of_a_retried_message_can_be_replayed(
    system: TestSystem, service: Service, tmp_path: Path
) -> None:
    waits = make_agent("waits", "test_waits_without_memory", senders="User")
    asker = make_agent("asker", "test_asks", senders="waits")
    limits = {"retries": 1, "first_pause_s": 0.05, "longest_pause_s": 0.1}
    system.start_worker(bundles=[make_bundle(UID, waits, asker)], limits=limits)
    text = make_waiting("not now", tmp_path / "tries", tries=1)
    system.client.enter(UID, f"{service.url} {text}")
    (letter,) = wait_for(lambda: system.dead_letters(UID), "its retries end")

    replay(system, UID, letter.id)

    assert await_answers(system) == [text]
    assert len(service.asked) == 1


def test_workers_that_are_killed_while_a_call_waits_do_not_end_it(
    system: TestSystem, service: Service
) -> None:
    service.hold.clear()
    worker = system.start_worker(bundles=[make_asking()])
    system.client.enter(UID, f"{service.url} tea")
    for asked in range(1, 7):
        wait_for(lambda asked=asked: len(service.asked) == asked, "the service is asked")
        worker.kill()
        worker = system.start_worker()
    service.hold.set()

    assert await_answers(system) == ["tea"]
