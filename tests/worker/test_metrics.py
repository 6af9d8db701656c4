"""Metrics: the number of processed messages per pipeline, and the recent rate."""

from memrelay.worker.metrics import WINDOW_S, Metrics
from memrelay.worker.run.outcome import Outcome


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def done(*uids: str) -> list[Outcome]:
    return [
        Outcome(key=f"{uid}/{at}", id=str(at), uid=uid, root=str(at), reply="")
        for at, uid in enumerate(uids)
    ]


def test_nothing_done_is_nothing_told() -> None:
    assert set(Metrics().read(["a"])["a"].values()) == {0}
    assert Metrics().read([]) == {}


def test_what_was_done_and_given_up_is_counted_for_each_pipeline() -> None:
    tally = Metrics()

    tally.count(done("a", "b", "a"))
    tally.count_dead(["a"])
    tally.count([Outcome("a/1-0", "1-0", "a", "1-0", "", delayed=True)])
    tally.count_retried(["a", "a"])

    told = tally.read(["a", "b", "c"])
    assert [(one["done"], one["dead"]) for one in told.values()] == [(2, 1), (1, 0), (0, 0)]
    assert [one["retried"] for one in told.values()] == [2, 0, 0]


def test_the_rate_is_that_since_the_last_reading() -> None:
    clock = Clock()
    tally = Metrics(clock)
    tally.read(["a"])

    clock.now_s += 2
    tally.count(done(*["a"] * 500))

    assert tally.read(["a"])["a"]["rate"] == 250.0


def test_the_rate_forgets_what_was_long_ago() -> None:
    clock, rates = Clock(), []
    tally = Metrics(clock)
    for second in range(30):
        if second < 5:
            tally.count(done(*["a"] * 100))
        rates.append(tally.read(["a"])["a"]["rate"])
        clock.now_s += 1

    assert rates[5] > 60
    assert rates[-1] == 0.0
    assert all(rate <= 100 for rate in rates)


def test_a_pipeline_that_comes_later_has_a_rate_of_its_own() -> None:
    clock = Clock()
    tally = Metrics(clock)
    tally.count(done("a"))
    tally.read(["a"])

    clock.now_s += WINDOW_S / 10
    tally.count(done("b", "b"))

    told = tally.read(["a", "b"])["b"]
    assert (told["done"], told["rate"]) == (2, 2.0)
    assert tally.read(["a"])["a"]["done"] == 1


def test_two_readings_at_once_divide_by_nothing() -> None:
    clock = Clock()
    tally = Metrics(clock)

    tally.read(["a"])
    tally.count(done("a"))

    assert tally.read(["a"])["a"]["done"] == 1


def test_a_batch_is_counted_with_its_time_for_each_pipeline_by_its_share() -> None:
    tally = Metrics()

    tally.count_in("a", 4)
    tally.count(done("a", "a", "a", "b"), took_s=0.4, duplicates={"a": 2})

    told = tally.read(["a", "b"])
    assert (told["a"]["in"], told["a"]["duplicates"], told["b"]["duplicates"]) == (4, 2, 0)
    assert (told["a"]["handler_s"], told["b"]["handler_s"]) == (0.3, 0.1)


def test_a_pause_is_news_once_for_each_reason_and_its_end_is_too() -> None:
    tally = Metrics()

    news = [tally.pause(["a", "b"], reason) for reason in ("locked", "locked", "full")]

    assert (news, tally.paused) == ([True, False, True], {"a": "full", "b": "full"})
    assert tally.read(["a"])["a"]["pauses"] == 3
    assert [tally.resume(["a", "b"]), tally.resume(["a", "b"]), tally.paused] == [True, False, {}]
