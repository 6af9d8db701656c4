"""Row 6, on the bus: ten copies of a message have one effect and ten equal reports."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.bus.keys import reply_channel
from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, make_agent, make_bundle, make_relay, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.waiting import PATIENCE_S, wait_for

TEN = 10
SOON = {"first_pause_s": 0.2, "longest_pause_s": 0.5}


class Receipts:
    """Requests a report for each message and collects them. Use it as a context."""

    def __init__(self, system: TestSystem, uid: str) -> None:
        self._system, self._uid, self._channel = system, uid, reply_channel(uid, "receipts")
        self._heard: list[Any] = []
        self._subscribed = system.client.redis.pubsub()

    def __enter__(self) -> "Receipts":
        self._subscribed.subscribe(self._channel)
        assert self._subscribed.get_message(timeout=PATIENCE_S)["type"] == "subscribe"
        return self

    def __exit__(self, *_: object) -> None:
        self._subscribed.close()

    def send(self, text: str, times: int = TEN) -> None:
        """Send the same message so many times in one MULTI."""
        fields = {
            "swarm": "chat",
            "data": make_envelope(text),
            "id": "order-1",
            "reply": self._channel,
        }
        with self._system.client.redis.pipeline(transaction=True) as pipe:
            for _ in range(times):
                pipe.xadd(input_of(self._uid), fields)
            pipe.execute()

    def results(self) -> list[Any]:
        """Return the results in the reports, once there are ten."""
        wait_for(self._ten, f"ten reports, not {self._heard}", 20)
        return [report["results"] for report in self._heard]

    @property
    def heard(self) -> int:
        """Return how many reports have arrived."""
        self._listen()
        return len(self._heard)

    def _ten(self) -> bool:
        self._listen()
        return len(self._heard) >= TEN

    def _listen(self) -> None:
        while message := self._subscribed.get_message(timeout=0.05):
            self._heard.append(orjson.loads(message["data"]))


def assert_ten_alike(results: list[Any]) -> None:
    assert len(results) == TEN and results[0]
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("apart", [True, False], ids=["one after the other", "all at once"])
def test_ten_copies_of_a_message_have_one_effect_and_equal_answers(
    apart: bool,
) -> None:
    uid = make_uid()
    with TestSystem() as system, Receipts(system, uid) as receipts:
        system.start_worker(bundles=[make_bundle(uid)])
        for times in [1] * TEN if apart else [TEN]:
            receipts.send("/write tea", times)
            system.client.await_quiet(uid)

        assert_ten_alike(receipts.results())
        assert system.contents(uid) == ["tea"]
        assert len({said.mid for said in system.client.log(uid)}) == 3


def test_a_pipeline_without_memory_recognizes_a_duplicate() -> None:
    uid, echo = make_uid(), make_relay("echo", "^(.*)$")
    with TestSystem() as system, Receipts(system, uid) as receipts:
        system.start_worker(bundles=[make_bundle(uid, echo)])
        for _ in range(TEN):
            receipts.send("tea", 1)
            system.client.await_quiet(uid)

        assert_ten_alike(receipts.results())
        assert len({said.mid for said in system.client.log(uid)}) == 2


def test_ten_copies_that_wait_for_a_retry_have_one_effect(tmp_path: Path) -> None:
    uid, waiting = (
        make_uid(),
        make_agent("keeper", "test_waits", {"memory_id": STORE}, senders="User"),
    )
    with TestSystem() as system, Receipts(system, uid) as receipts:
        system.start_worker(bundles=[make_bundle(uid, waiting)], limits=SOON)
        receipts.send(make_waiting("tea", tmp_path / "gate", tries=15))

        assert_ten_alike(receipts.results())
        assert len(system.contents(uid)) == 1


def test_an_entry_delivered_ten_times_has_one_effect() -> None:
    uid, killed_at = make_uid(), {"die_on": "before sending"}
    with TestSystem() as system, Receipts(system, uid) as receipts:
        worker = system.start_stepping_worker(bundles=[make_bundle(uid)], **killed_at)
        receipts.send("/write tea", 1)
        for _ in range(TEN - 1):
            worker.await_end()
            worker = system.start_stepping_worker(ready=False, **killed_at)
        worker.await_end()
        assert receipts.heard == 0
        system.start_worker()
        system.client.await_quiet(uid)

        assert system.contents(uid) == ["tea"]
        assert [said.sender for said in system.client.log(uid)] == [
            "User",
            "dispatch_write",
            "memory_write",
        ]
        assert not system.dead_letters(uid)
        assert receipts.heard == 1
