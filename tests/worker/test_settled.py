"""Inbox rows stay as long as a failover can bring their entries back."""

import time

from memrelay.bus.client.url import Address
from memrelay.bus.replication import Replication
from memrelay.worker.deliver.settled import MAX_WAITING, SettledInputs

ALONE, REPLICATED = Address(path="/bus"), Address(path="/bus", min_replicas=1)


def test_without_replicas_an_input_settles_at_once() -> None:
    settled = SettledInputs(Replication.of(ALONE))

    settled.add("store", ["p/1-0"])

    assert settled.take() == {"store": ["p/1-0"]}


def test_with_replicas_an_input_settles_when_they_have_its_acknowledgement() -> None:
    replication = Replication.of(REPLICATED)
    settled = SettledInputs(replication)
    settled.add("store", ["p/1-0"])

    before = dict(settled.take())
    replication.confirmed_s = time.monotonic()
    settled.add("store", ["p/2-0"])

    assert before == {}
    assert settled.take() == {"store": ["p/1-0"]}


def test_replicas_that_confirm_nothing_do_not_fill_the_memory() -> None:
    settled = SettledInputs(Replication.of(REPLICATED))

    settled.add("store", [f"p/{number}-0" for number in range(MAX_WAITING + 2)])

    assert settled.take() == {"store": ["p/0-0", "p/1-0"]}


def test_a_replay_keeps_its_row() -> None:
    replication = Replication.of(REPLICATED)
    settled = SettledInputs(replication)
    settled.add("store", ["p/1-0", "p/2-0"])

    settled.withdraw("store", "p/1-0")
    replication.confirmed_s = time.monotonic()
    settled.take()
    settled.withdraw("store", "p/2-0")

    assert settled.take() == {"store": []}
