"""The delay queue returns inputs when they are due."""

from memrelay.bus.message import new_message
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.run.continuations import DelayQueue
from memrelay.worker.run.inputs import Input
from tests.support.bundles import make_bundle

PLAN = Plan(check(make_bundle("p")).accepted())


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def make_input(ident: str) -> Input:
    return Input(
        f"p/{ident}",
        ident,
        PLAN,
        "chat",
        new_message("User", "me", ident, username="User", now_ms=0),
    )


def taken(queue: DelayQueue) -> list[str]:
    return [work.id for work in queue.take()]


def test_an_input_is_taken_when_it_is_due() -> None:
    clock = Clock()
    queue = DelayQueue(clock)
    queue.add(make_input("1-0"), 1, 2.5)

    assert (queue.next_s, taken(queue), queue.counts["p"]) == (2.5, [], 1)
    clock.now_s += 2.5
    assert (queue.next_s, taken(queue)) == (0.0, ["1-0"])
    assert (queue.next_s, taken(queue), queue.counts["p"]) == (None, [], 0)


def test_inputs_are_ordered_by_due_time_and_arrival() -> None:
    clock = Clock()
    queue = DelayQueue(clock)
    for ident, in_s in (("1-0", 3), ("2-0", 1), ("3-0", 3), ("4-0", 0), ("5-0", 9)):
        queue.add(make_input(ident), 1, in_s)

    clock.now_s += 3

    assert taken(queue) == ["4-0", "2-0", "1-0", "3-0"]


def test_a_queue_is_full_by_count_or_bytes() -> None:
    by_count, by_bytes = DelayQueue(Clock()), DelayQueue(Clock())
    for _ in range(DelayQueue.MAX_INPUTS):
        by_count.add(make_input("1-0"), 1, 0)
    by_bytes.add(make_input("1-0"), DelayQueue.MAX_BYTES, 0)

    assert (by_count.is_full, by_bytes.is_full) == (True, True)
    by_count.take()
    by_bytes.take()
    assert (by_count.is_full, by_bytes.is_full) == (False, False)
