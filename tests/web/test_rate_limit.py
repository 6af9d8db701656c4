"""Rate limits: a token bucket per caller."""

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.web.server.rate_limit import MAX_CALLERS, TokenBuckets
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def limited() -> Iterator[WebSystem]:
    """Start a server that accepts bursts of five requests and one request per second."""
    with WebSystem(worker=False, WEB__RATE="1", WEB__BURST="5") as limited:
        yield limited


def await_known(limited: WebSystem, key: ApiKey) -> None:
    """Wait until the web server knows a key."""
    await_closed(limited)
    wait_for(lambda: limited.get("/v1/pipelines", **key.headers).status != 401, "the key is known")


def test_a_burst_passes_at_once_and_then_the_rate_applies(clock: Clock) -> None:
    buckets = TokenBuckets(10, 3, clock)

    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]
    clock.now += 0.1
    assert [buckets.take("a"), buckets.take("a")] == [0, pytest.approx(0.1)]


def test_a_rejection_takes_no_token(clock: Clock) -> None:
    buckets = TokenBuckets(1, 1, clock)

    assert [buckets.take("a") for _ in range(100)] == [0] + [1] * 99
    clock.now += 1
    assert buckets.take("a") == 0


def test_each_caller_has_its_own_bucket(clock: Clock) -> None:
    buckets = TokenBuckets(1, 1, clock)

    assert [buckets.take(name) for name in "abab"] == [0, 0, 1, 1]


def test_the_number_of_buckets_is_bounded(clock: Clock) -> None:
    buckets = TokenBuckets(1, 1, clock)

    for caller in range(MAX_CALLERS + 500):
        buckets.take(caller)

    assert len(buckets) == MAX_CALLERS
    assert buckets.take(MAX_CALLERS + 499) > 0


@given(st.lists(st.floats(0, 5), max_size=60), st.integers(1, 20), st.integers(1, 10))
def test_burst_and_rate_are_never_exceeded(pauses: list[float], rate: int, burst: int) -> None:
    clock = Clock()
    buckets, taken = TokenBuckets(rate, burst, clock), 0
    for pause in pauses:
        clock.now += pause
        taken += buckets.take("a") == 0

    assert taken <= burst + rate * clock.now + 1e-6


def test_a_limited_key_gets_429_with_retry_after(limited: WebSystem) -> None:
    one, two = (make_key(limited.system.root, "read") for _ in range(2))
    await_known(limited, two)

    answers = [limited.get("/live", **one.headers) for _ in range(6)]

    assert [answer.status for answer in answers] == [200] * 5 + [429]
    assert "web.rate" in answers[-1].problem[1] and "web.burst" in answers[-1].problem[1]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert limited.get("/live", **two.headers).status == 200


def test_loopback_callers_without_a_key_are_not_limited(limited: WebSystem) -> None:
    assert {limited.get("/live").status for _ in range(20)} == {200}
    assert {
        limited.get("/live", Authorization=f"Bearer mr_{number}_x").status for number in range(20)
    } == {200}


def test_a_rejected_message_is_not_stored(limited: WebSystem) -> None:
    uid, statuses, gate = limited.deploy_unserved(), [], threading.Barrier(20)
    key = make_key(limited.system.root, "publish")
    await_known(limited, key)

    def post() -> None:
        gate.wait()
        statuses.append(limited.say(uid, "/write tea", **key.headers).status)

    threads = [threading.Thread(target=post) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert set(statuses) == {202, 429}
    assert limited.system.client.redis.xlen(f"pipeline:{{{uid}}}:in") == statuses.count(202) <= 15
