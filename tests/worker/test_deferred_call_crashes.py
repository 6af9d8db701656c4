"""Deferred calls, crashes, stops and deploys: which requests are repeated, and with which id."""

import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import orjson
import pytest

from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, Json, make_agent, make_bundle
from tests.support.deferred_calls import Service
from tests.support.house import House
from tests.support.letters import replay
from tests.support.waiting import wait_for
from tests.support.worker import arm

UID = "asking"
STORED = "deferred call result stored"


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def house() -> Iterator[House]:
    with House() as house:
        yield house


def make_asking(block: str = "test_asks") -> Json:
    return make_bundle(UID, make_agent("asker", block, hears="User"))


def find_answers(house: House, count: int = 1) -> list[str]:
    """Return the answers if there are enough and nothing is pending. A crash may repeat an answer
    under its id.
    """
    answers = {said.mid: said.text for said in house.client.log(UID) if said.sender == "asker"}
    found = [*answers.values()]
    is_over = len(found) >= count and house.rows(UID, "SELECT id FROM pending", "relay") == []
    return found if is_over else []


def await_answers(house: House, count: int = 1) -> list[str]:
    return wait_for(lambda: find_answers(house, count), f"{count} answers")


def test_a_stored_result_is_never_requested_again(house: House, service: Service) -> None:
    worker = house.start_stepping_worker(bundles=[make_asking()], die_on=STORED)
    house.client.enter(UID, f"{service.url} tea")
    worker.await_end()

    house.start_worker()

    assert await_answers(house) == ["tea"]
    assert service.texts == ["tea"]


@pytest.mark.parametrize("block", ["test_asks", "test_fetches"])
def test_a_request_without_a_result_is_repeated_under_the_same_id(
    house: House, service: Service, block: str
) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking(block)])
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    worker.kill()
    house.start_worker()

    wait_for(lambda: len(service.asked) == 2, "it is asked again")
    service.hold.set()
    assert await_answers(house) == ["tea"]
    assert len(set(service.asked)) == 1


@pytest.mark.slow
def test_a_crash_at_any_step_leaves_one_answer_and_at_most_one_repetition(
    service: Service,
) -> None:
    for number in count(1):
        service.asked.clear()
        with House() as house:
            worker = house.start_stepping_worker(
                bundles=[make_asking()], armed=False, die_at=number
            )
            skipped = len(house.steps)
            arm(worker)
            house.client.enter(UID, f"{service.url} tea")
            if worker.lives_until(lambda house=house: find_answers(house)):
                break
            steps = house.steps[skipped:]
            house.start_worker()

            assert await_answers(house) == ["tea"], steps
            most = 1 if STORED in steps else 2
            assert 1 <= len(service.asked) <= most and len(set(service.asked)) == 1, steps
    assert number > 5


def test_a_deploy_without_the_block_neither_ends_nor_repeats_a_deferred_call(
    house: House, service: Service
) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking()])
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    house.deploy(make_bundle(UID, make_agent("adder", "add_1", hears="Adder")))
    wait_for(lambda: worker.said.count("pipelines_served") == 2, "it is deployed")
    assert [said.text for said in house.client.ask(UID, "1", sender="Adder")] == ["1", "2"]
    service.hold.set()

    assert await_answers(house) == ["tea"]
    assert len(service.asked) == 1


def test_a_lost_bus_repeats_no_request(house: House, service: Service) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking()])
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    house.kill_server()
    wait_for(lambda: "bus_lost" in worker.said, "the worker notices it")
    house.server.start()
    service.hold.set()
    wait_for(lambda: worker.said.count("pipelines_served") == 2, "it is back")

    assert await_answers(house) == ["tea"]
    assert len(service.asked) == 1


def test_a_stopping_worker_awaits_a_short_deferred_call(house: House, service: Service) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking()])
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    worker.tell_to_end()
    time.sleep(0.2)
    service.hold.set()

    assert worker.await_end() == 0
    house.start_worker()
    assert await_answers(house) == ["tea"]
    assert len(service.asked) == 1


def test_a_stopping_worker_leaves_a_long_deferred_call_to_the_next_one(
    house: House, service: Service
) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking()], limits={"grace_s": 1})
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the service is asked")

    assert worker.stop() == 0
    assert "stopped_with_work_pending" not in worker.said
    service.hold.set()
    house.start_worker()

    assert await_answers(house) == ["tea"]
    assert len(service.asked) == 2 and len(set(service.asked)) == 1


def test_an_executor_that_ends_the_worker_fails_after_three_repetitions(
    house: House, service: Service
) -> None:
    worker, crashes = house.start_worker(bundles=[make_asking()]), 0
    house.client.enter(UID, f"{service.url} crash the worker")
    house.client.enter(UID, f"{service.url} tea")
    while not worker.lives_until(lambda: len(house.client.log(UID)) >= 4):
        crashes += 1
        worker = house.start_worker(ready=False)

    failed, answer = await_answers(house, 2)
    assert "the worker ended 3 times" in orjson.loads(failed)["error"]
    assert (crashes, answer, house.dead_letters(UID)) == (4, "tea", [])


def test_a_block_that_ends_the_worker_with_the_result_becomes_a_dead_letter(
    house: House, service: Service, tmp_path: Path
) -> None:
    worker = house.start_worker(bundles=[make_asking()])
    house.client.enter(UID, f"{service.url} crash the block {tmp_path / 'tries'}")
    while not worker.lives_until(lambda: house.dead_letters(UID)):
        worker = house.start_worker(ready=False)

    (letter,) = house.dead_letters(UID)
    assert "3 times" in letter.error
    assert len(service.asked) == 1


def test_the_replay_of_a_dead_letter_repeats_no_request(
    house: House, service: Service, tmp_path: Path
) -> None:
    fails = make_agent("fails", "test_fails", {"memory_id": STORE}, hears="asker")
    agents = make_asking("test_fetches")["agents"]
    house.start_worker(bundles=[make_bundle(UID, *agents, fails)])
    corrected = tmp_path / "corrected"
    ident = house.client.enter(UID, f"{service.url} mine {corrected}")
    (letter,) = wait_for(lambda: house.dead_letters(UID), "it fails")
    assert house.client.log(UID)[1:] == [] and letter.id.startswith(f"{ident}.")

    corrected.touch()
    house.client.redis.xadd(
        f"pipeline:{{{UID}}}:in",
        {"agent": letter.agent, "data": letter.data, "replay_of": letter.id},
    )

    wait_for(lambda: house.contents(UID), "the replay writes")
    assert house.contents(UID) == [f"mine {corrected}"]
    assert len(service.asked) == 1
    assert house.rows(UID, "SELECT id FROM pending") == []


def test_a_repeated_async_block_has_the_effects_of_one(house: House, service: Service) -> None:
    service.hold.clear()
    worker = house.start_worker(bundles=[make_asking("test_notes")])
    house.client.enter(UID, f"{service.url} tea")
    wait_for(lambda: service.asked, "the note is stored")

    worker.kill()
    house.start_worker()
    service.hold.set()

    (answer,) = await_answers(house)
    rows = house.rows(UID, "SELECT guid FROM records", "relay")
    assert rows == [(orjson.loads(answer)["guid"],)] and len(service.asked) == 2


def test_a_replay_that_is_retried_repeats_no_request(
    house: House, service: Service, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"
    limits = {"retries": 1, "first_pause_s": 0.05, "longest_pause_s": 0.1}
    house.start_worker(bundles=[make_asking()], limits=limits)
    house.client.enter(UID, f"{service.url} not now {tries}")
    (letter,) = wait_for(lambda: house.dead_letters(UID), "its retries end")

    tries.write_bytes(b"")  # the next two attempts fail again
    replay(house, UID, letter.id)
    wait_for(lambda: tries.stat().st_size == 2, "the replay is tried twice")
    (again,) = wait_for(lambda: house.dead_letters(UID), "it fails again")
    replay(house, UID, again.id)

    assert await_answers(house) == [f"not now {tries}"]
    assert again.id == letter.id and len(service.asked) == 1
    assert house.rows(UID, "SELECT id FROM pending", "relay") == []


def test_a_deferred_call_of_a_retried_message_can_be_replayed(
    house: House, service: Service, tmp_path: Path
) -> None:
    waits = make_agent("waits", "test_waits_without_memory", hears="User")
    asker = make_agent("asker", "test_asks", hears="waits")
    limits = {"retries": 1, "first_pause_s": 0.05, "longest_pause_s": 0.1}
    house.start_worker(bundles=[make_bundle(UID, waits, asker)], limits=limits)
    text = make_waiting("not now", tmp_path / "tries", tries=1)
    house.client.enter(UID, f"{service.url} {text}")
    (letter,) = wait_for(lambda: house.dead_letters(UID), "its retries end")

    replay(house, UID, letter.id)

    assert await_answers(house) == [text]
    assert len(service.asked) == 1
