"""Inbox rows stay as long as a failover can bring their entries back."""

from memrelay.bus.client.url import Address
from memrelay.bus.replication import Replication
from memrelay.worker.deliver.settled import DEMOTION_S, MAX_WAIT_S, MAX_WAITING, SettledInputs

ALONE, REPLICATED = Address(path="/bus"), Address(path="/bus", min_replicas=1)


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_without_replicas_an_input_settles_at_once() -> None:
    settled = SettledInputs(Replication.of(ALONE))

    settled.add("store", ["p/1-0"])

    assert settled.take() == {"store": ["p/1-0"]}


def test_with_replicas_an_input_settles_when_they_have_its_acknowledgement() -> None:
    replication, clock = Replication.of(REPLICATED), Clock()
    settled = SettledInputs(replication, clock)
    settled.add("store", ["p/1-0"])
    clock.now_s = DEMOTION_S + 1

    before = dict(settled.take())
    replication.confirmed_s = clock.now_s
    settled.add("store", ["p/2-0"])

    assert before == {}
    assert settled.take() == {"store": ["p/1-0"]}


def test_an_input_settles_after_a_former_primary_can_no_longer_look_like_one() -> None:
    replication, clock = Replication.of(REPLICATED), Clock()
    settled = SettledInputs(replication, clock)
    settled.add("store", ["p/1-0"])

    replication.confirmed_s = clock.now_s = DEMOTION_S
    before = dict(settled.take())
    clock.now_s = DEMOTION_S + 0.1

    assert before == {}
    assert settled.take() == {"store": ["p/1-0"]}


def test_without_a_confirmation_an_input_settles_after_a_minute() -> None:
    clock = Clock()
    settled = SettledInputs(Replication.of(REPLICATED), clock)
    settled.add("store", ["p/1-0"])

    clock.now_s = MAX_WAIT_S
    before = dict(settled.take())
    clock.now_s = MAX_WAIT_S + 0.1

    assert before == {}
    assert settled.take() == {"store": ["p/1-0"]}


def test_replicas_that_confirm_nothing_do_not_fill_the_memory() -> None:
    settled = SettledInputs(Replication.of(REPLICATED))

    settled.add("store", [f"p/{number}-0" for number in range(MAX_WAITING + 2)])

    assert settled.take() == {"store": ["p/0-0", "p/1-0"]}


def test_a_replay_keeps_its_row() -> None:
    replication, clock = Replication.of(REPLICATED), Clock()
    settled = SettledInputs(replication, clock)
    settled.add("store", ["p/1-0", "p/2-0"])

    settled.withdraw("store", "p/1-0")
    replication.confirmed_s = clock.now_s = DEMOTION_S + 1
    settled.take()
    settled.withdraw("store", "p/2-0")

    assert settled.take() == {"store": []}
