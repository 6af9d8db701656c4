"""Metrics count inputs and measure rates by pipeline."""

from memrelay.worker.metrics import WINDOW_S, Metrics
from memrelay.worker.run.outcome import Outcome


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def done(*uids: str) -> list[Outcome]:
    return [
        Outcome(key=f"{uid}/{at}", id=str(at), uid=uid, root=str(at), reply="")
        for at, uid in enumerate(uids)
    ]


def test_metrics_begin_at_zero() -> None:
    assert set(Metrics().read(["a"])["a"].values()) == {0}
    assert Metrics().read([]) == {}


def test_outcomes_are_counted_by_pipeline() -> None:
    metrics = Metrics()

    metrics.count(done("a", "b", "a"))
    metrics.count_dead(["a"])
    metrics.count([Outcome("a/1-0", "1-0", "a", "1-0", "", delayed=True)])
    metrics.count_retried(["a", "a"])

    counts = metrics.read(["a", "b", "c"])
    assert [(one["done"], one["dead"]) for one in counts.values()] == [(2, 1), (1, 0), (0, 0)]
    assert [one["retried"] for one in counts.values()] == [2, 0, 0]


def test_the_rate_covers_the_time_since_the_last_reading() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.read(["a"])

    clock.now_s += 2
    metrics.count(done(*["a"] * 500))

    assert metrics.read(["a"])["a"]["rate"] == 250.0


def test_the_rate_forgets_old_inputs() -> None:
    clock, rates = Clock(), []
    metrics = Metrics(clock)
    for second in range(30):
        if second < 5:
            metrics.count(done(*["a"] * 100))
        rates.append(metrics.read(["a"])["a"]["rate"])
        clock.now_s += 1

    assert rates[5] > 60
    assert rates[-1] == 0.0
    assert all(rate <= 100 for rate in rates)


def test_a_later_pipeline_has_its_own_rate() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.count(done("a"))
    metrics.read(["a"])

    clock.now_s += WINDOW_S / 10
    metrics.count(done("b", "b"))

    counts = metrics.read(["a", "b"])["b"]
    assert (counts["done"], counts["rate"]) == (2, 2.0)
    assert metrics.read(["a"])["a"]["done"] == 1


def test_two_readings_at_the_same_time_are_allowed() -> None:
    clock = Clock()
    metrics = Metrics(clock)

    metrics.read(["a"])
    metrics.count(done("a"))

    assert metrics.read(["a"])["a"]["done"] == 1


def test_the_time_of_a_batch_is_shared_by_its_pipelines() -> None:
    metrics = Metrics()

    metrics.count_in("a", 4)
    metrics.count(done("a", "a", "a", "b"), took_s=0.4, duplicates={"a": 2})

    counts = metrics.read(["a", "b"])
    assert (counts["a"]["in"], counts["a"]["duplicates"], counts["b"]["duplicates"]) == (4, 2, 0)
    assert (counts["a"]["handler_s"], counts["b"]["handler_s"]) == (0.3, 0.1)


def test_a_pause_is_new_once_for_each_reason() -> None:
    metrics = Metrics()

    is_new = [metrics.pause(["a", "b"], reason) for reason in ("locked", "locked", "full")]

    assert (is_new, metrics.paused) == ([True, False, True], {"a": "full", "b": "full"})
    assert metrics.read(["a"])["a"]["pauses"] == 3
    assert [metrics.resume(["a", "b"]), metrics.resume(["a", "b"]), metrics.paused] == [
        True,
        False,
        {},
    ]
