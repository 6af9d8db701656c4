"""Deferred calls: requests of blocks that wait, and async blocks."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from memrelay.bus.client.url import Address
from memrelay.worker.deferred_calls.bus_operations import BusOperations
from memrelay.worker.deferred_calls.runner import DeferredCallRunner, Ended, Work
from tests.support.bundles import STORE, Json, make_agent, make_bundle
from tests.support.client import SwarmMessage
from tests.support.deferred_calls import AGAIN, Service
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

CONTENTS = "SELECT content FROM records ORDER BY row"
PENDING = "SELECT count(*) FROM pending"
# The block of each pipeline.
BLOCKS = {
    name: f"test_{name}"
    for name in ("asks", "fetches", "fetches_at_once", "notes", "asks_here", "tells_deferred_call")
}


def make_asking(uid: str, block: str) -> Json:
    """Return a bundle whose agent `asker` has that block and listens to users."""
    args = {"memory_id": STORE} if block in ("test_asks_here", "test_tells_deferred_call") else {}
    return make_bundle(uid, make_agent("asker", block, args, senders="User"))


class Asked:
    """A pipeline with one block, and the service that it asks."""

    def __init__(self, system: TestSystem, service: Service, uid: str) -> None:
        self.system, self.service, self.uid = system, service, uid

    def send(self, *texts: str) -> list[str]:
        """Send texts with the address of the service, together, and return the inputs' ids."""
        return self.system.client.enter_together(
            self.uid, [f"{self.service.url} {text}" for text in texts]
        )

    def answers(self, idents: list[str]) -> list[str]:
        """Return the texts of the agent to these inputs, in the order of the log."""

        def find() -> list[SwarmMessage]:
            found = [
                said
                for said in self.system.client.log(self.uid)
                if said.sender != "User" and said.input in idents
            ]
            return found if len(found) >= len(idents) else []

        return [said.text for said in wait_for(find, f"{self.uid} answers {idents}")]

    def ask(self, *texts: str) -> list[str]:
        return self.answers(self.send(*texts))


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        bundles = [make_asking(uid, block) for uid, block in BLOCKS.items()]
        worker = system.start_worker(bundles=bundles)
        yield system
        assert worker.stop() == 0


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture
def of(system: TestSystem, service: Service) -> Callable[[str], Asked]:
    return lambda uid: Asked(system, service, uid)


Of = Callable[[str], Asked]


@pytest.mark.parametrize("uid", ["asks", "fetches"])
def test_the_answer_contains_what_the_service_said(of: Of, uid: str) -> None:
    asked = of(uid)

    (ident,) = asked.send("tea")

    assert asked.answers([ident]) == ["tea"]
    ((key, _),) = asked.service.asked
    assert key.startswith(f"{uid}/{ident}.")
    wait_for(lambda: asked.system.rows(uid, PENDING, "relay") == [(0,)], "the row is deleted")


def test_an_executor_calls_operations_and_every_step_knows_the_id_of_the_deferred_call(
    of: Of,
) -> None:
    asked = of("tells_deferred_call")

    (answer,) = asked.ask("tea")

    expected, executed, resumed = orjson.loads(answer)
    assert expected == executed == resumed
    assert executed.startswith("tells_deferred_call/")
    assert asked.system.contents("tells_deferred_call") == ["asker False"]


@pytest.mark.parametrize("uid", ["asks", "fetches"])
def test_deferred_calls_of_one_agent_run_in_the_order_of_their_messages(of: Of, uid: str) -> None:
    texts = [f"word{number}" for number in range(6)]

    assert of(uid).ask(*texts) == texts


def test_a_deferred_call_that_leads_to_another_stays_before_later_messages(of: Of) -> None:
    asked = of("asks")

    assert asked.ask(f"{AGAIN}{AGAIN}first", "second") == ["first", "second"]
    assert asked.service.texts == [f"{AGAIN}{AGAIN}first", f"{AGAIN}first", "first", "second"]
    assert len({key for key, _ in asked.service.asked}) == 4


def test_deferred_calls_with_different_orders_run_at_once(of: Of) -> None:
    asked = of("asks")
    asked.service.hold.clear()

    idents = asked.send("one@1", "two@2", "later@1")

    wait_for(lambda: len(asked.service.asked) == 2, "2 requests are open")
    asked.service.hold.set()
    assert sorted(asked.answers(idents)) == ["later@1", "one@1", "two@2"]
    assert asked.service.texts[2:] == ["later@1"]


def test_eight_calls_of_an_unordered_block_run_at_once(of: Of) -> None:
    asked = of("fetches_at_once")
    asked.service.hold.clear()

    idents = asked.send(*map(str, range(10)))

    wait_for(lambda: len(asked.service.asked) == 8, "8 requests are open")
    asked.service.hold.set()
    assert sorted(asked.answers(idents)) == [str(number) for number in range(10)]


@pytest.mark.parametrize(
    ("uid", "text", "error"),
    [
        ("asks", "raise", "RuntimeError: the service has closed"),
        ("asks_here", "tea", "the result of a deferred call must be a JSON value"),
    ],
)
def test_a_failed_deferred_call_is_answered_with_an_error(
    of: Of, uid: str, text: str, error: str
) -> None:
    (answer,) = of(uid).ask(text)

    assert error in orjson.loads(answer)["error"]


def run_deferred_call(work: Work, limit_s: float = 60.0) -> Ended:
    """Return the end of one deferred call."""

    async def run() -> Ended:
        runner, ended = DeferredCallRunner(8, limit_s, Address()), asyncio.Future[Ended]()
        runner.submit("one", work, ended.set_result)
        try:
            return await ended
        finally:
            runner.close()

    return asyncio.run(run())


def test_a_deferred_call_that_takes_too_long_fails() -> None:
    async def wait(_: BusOperations) -> bytes:
        await asyncio.sleep(60)
        return b""

    assert b"longer than 0.05 s (worker.deferred_call_s)" in run_deferred_call(wait, 0.05).result


def test_a_deferred_call_that_blocks_the_others_is_logged() -> None:
    async def block(_: BusOperations) -> bytes:
        time.sleep(0.3)
        return b""

    async def run() -> None:
        runner, ended = DeferredCallRunner(8, 60.0, Address()), asyncio.Future[Ended]()
        runner.blocked_s = 0.1
        runner.submit("p/1", block, ended.set_result)
        await ended
        runner.close()

    with capture_logs() as logs:
        asyncio.run(run())

    assert logs[0]["event"] == "deferred_calls_blocked" and logs[0]["deferred_calls"] == ["p/1"]
    assert "test_deferred_calls.py" in logs[0]["at"]


def test_pipelines_take_turns() -> None:
    begun: list[str] = []

    async def run() -> None:
        runner, all_ended = DeferredCallRunner(1, 60.0, Address()), asyncio.Event()

        def work(key: str) -> Work:
            async def begin(_: BusOperations) -> bytes:
                begun.append(key)
                return b""

            return begin

        for key in ("a/1", "a/2", "a/3", "b/1", "b/2"):
            runner.submit(key, work(key), lambda _: len(begun) == 4 and all_ended.set())
        assert runner.withdraw(["a/1", "a/3"]) == {"a/1"}
        await all_ended.wait()
        runner.close()

    asyncio.run(run())

    assert begun == ["a/1", "b/1", "a/2", "b/2"]


def test_an_executor_that_exits_ends_only_its_deferred_call() -> None:
    async def leave(_: BusOperations) -> bytes:
        sys.exit("it believed that this was its own program")

    assert b"SystemExit" in run_deferred_call(leave).result


@pytest.mark.parametrize("uid", ["asks", "fetches"])
def test_a_transient_error_repeats_a_step(of: Of, tmp_path: Path, uid: str) -> None:
    text = f"not now {tmp_path / 'tries'}"
    asked = of(uid)

    assert asked.ask(text) == [text]
    assert (tmp_path / "tries").stat().st_size == 3
    assert len(asked.service.asked) == 1


def test_an_async_block_calls_operations_of_its_pipeline(of: Of) -> None:
    (answer,) = of("notes").ask("green tea")

    assert of("notes").system.rows("notes", "SELECT guid, content FROM records", "relay") == [
        (orjson.loads(answer)["guid"], "green tea")
    ]


def test_deferred_calls_of_different_pipelines_do_not_wait_for_each_other(of: Of) -> None:
    asked, other = of("asks"), of("fetches")
    asked.service.hold.clear()
    waiting = asked.send("slow")
    wait_for(lambda: asked.service.asked, "the first one waits")

    with Service() as quick:
        assert Asked(other.system, quick, "fetches").ask("quick") == ["quick"]
    asked.service.hold.set()

    assert asked.answers(waiting) == ["slow"]


def test_a_refused_operation_of_an_async_block_is_answered_with_an_error(of: Of) -> None:
    (answer,) = of("notes").ask("")

    assert "OperationFailed: records.create: " in orjson.loads(answer)["error"]


def await_report(asked: Asked, text: str, **fields: str) -> list[str]:
    """Send a text and return the texts of its results, as a waiting client gets them."""
    reply = f"reply:{{{asked.uid}}}:test"
    with asked.system.client.redis.pubsub() as channel:
        channel.subscribe(reply)
        wait_for(channel.get_message, "it is subscribed")
        asked.system.client.enter(asked.uid, f"{asked.service.url} {text}", reply=reply, **fields)
        report = wait_for(
            lambda: channel.get_message(ignore_subscribe_messages=True), "the report comes"
        )
    return [one["args"][0]["text"] for one in orjson.loads(report["data"])["results"]]


@pytest.mark.parametrize(("uid", "text"), [("asks", f"{AGAIN}tea"), ("fetches", "tea")])
def test_a_client_that_waits_gets_the_final_result(of: Of, uid: str, text: str) -> None:
    assert await_report(of(uid), text) == ["tea"]


@pytest.mark.parametrize("uid", ["asks", "fetches"])
def test_a_repeated_idempotency_key_gets_the_result_without_a_request(of: Of, uid: str) -> None:
    asked = of(uid)

    results = [await_report(asked, "tea", id="key") for _ in range(2)]

    assert results == [["tea"], ["tea"]] and len(asked.service.asked) == 1


def test_a_worker_without_deferred_calls_starts_no_thread() -> None:
    before = threading.active_count()

    runner = DeferredCallRunner(8, 1.0, Address())

    assert threading.active_count() == before
    runner.close()


def test_a_full_queue_of_deferred_calls_does_not_hold_back_their_operations(
    service: Service,
) -> None:
    texts = [f"word{number}" for number in range(6)]
    with TestSystem() as system:
        bundles = [make_asking("notes", BLOCKS["notes"])]
        worker = system.start_worker(bundles=bundles, limits={"batch": 1, "open_deferred_calls": 2})

        answers = Asked(system, service, "notes").ask(*texts)

        assert [orjson.loads(answer)["content"] for answer in answers] == texts
        assert [row for (row,) in system.rows("notes", CONTENTS, "relay")] == texts
        system.client.await_quiet("notes")
        assert worker.stop() == 0


def test_deferred_calls_beyond_the_limit_of_a_cascade_do_not_stop_the_others(
    service: Service,
) -> None:
    names = [f"asker{number}" for number in range(4)]
    askers = [make_agent(name, "test_asks", senders="User") for name in names]
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle("many", *askers)], limits={"max_cascade": 3})
        asked = Asked(system, service, "many")

        (ident,) = asked.send("tea")

        wait_for(lambda: len(system.client.log("many")) == 4, "three are answered")
        (letter,) = system.dead_letters("many")
        assert "worker.max_cascade" in letter.error and letter.id.startswith(ident)
        wait_for(lambda: system.rows("many", PENDING, "relay") == [(0,)], "no row is left")
