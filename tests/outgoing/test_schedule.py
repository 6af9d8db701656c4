"""When deliveries are tried again, when they fail, and when an endpoint is switched off."""

from itertools import pairwise
from typing import Any

import pytest

from memrelay.memory.endpoint_rules import matches
from memrelay.memory.models.endpoints.endpoints import show_url
from memrelay.memory.models.endpoints.schedule import (
    PROBE_MS,
    Answer,
    after_try,
    is_open,
    next_probe_ms,
)
from memrelay.memory.models.endpoints.table import (
    DAY_MS,
    DELIVERED,
    FAILED,
    WAITING,
    Delivery,
    Endpoint,
    EndpointSpec,
)

SECOND, HOUR = 1000, 3_600_000
FAILURE = Answer(500, "down")


def make_endpoint(**spec: Any) -> Endpoint:
    return Endpoint("ep", EndpointSpec("https://example.com", **spec), (), "", 0, 0)


def make_delivery() -> Delivery:
    return Delivery(1, "msg", "ep", "s", 1, "record.created", "g", None, 0, WAITING, 0, 0, None)


def fail(
    endpoint: Endpoint, answer: Answer = FAILURE, random: float = 0.0
) -> tuple[Endpoint, list[int], Delivery]:
    """Try one delivery until it ends. Return the endpoint, the times of all tries (ms), and it."""
    now_ms, times, delivery = 0, list[int](), make_delivery()
    while delivery.state == WAITING:
        times.append(now_ms)
        endpoint, delivery = after_try(endpoint, delivery, answer, now_ms, lambda: random)
        now_ms = delivery.due
    return endpoint, times, delivery


def test_eight_tries_are_made_with_growing_pauses() -> None:
    _, times, delivery = fail(make_endpoint())
    pauses = [after - before for before, after in pairwise(times)]
    assert pauses == [
        *(5 * SECOND, 300 * SECOND, 1800 * SECOND),
        *(2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR),
    ]
    assert (delivery.state, delivery.tries) == (FAILED, 8)


def test_pauses_are_up_to_a_fifth_longer() -> None:
    _, times, _ = fail(make_endpoint(), random=1.0)
    assert times[1] == 6 * SECOND


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_receiver_sets_the_pause(status: int) -> None:
    answer = Answer(status, "", retry_after_s=77.0)
    _, delivery = after_try(make_endpoint(), make_delivery(), answer, 0, lambda: 1.0)
    assert delivery.due == 77 * SECOND
    most = answer._replace(retry_after_s=1e9)
    assert after_try(make_endpoint(), make_delivery(), most, 0, lambda: 1.0)[1].due == DAY_MS


def test_redirects_and_lost_connections_are_failures() -> None:
    for answer in (Answer(302, ""), Answer(0, "no connection")):
        endpoint, delivery = after_try(make_endpoint(), make_delivery(), answer, 0, lambda: 0.0)
        assert (endpoint.failures, delivery.state) == (1, WAITING)


def test_an_ordered_endpoint_gives_up_refused_deliveries_after_three_tries() -> None:
    _, times, _ = fail(make_endpoint(ordered=True), Answer(422, "no"))
    assert len(times) == 3
    _, times, _ = fail(make_endpoint(), Answer(422, "no"))
    assert len(times) == 8


def test_the_circuit_opens_after_five_failures_and_closes_with_a_success() -> None:
    endpoint = make_endpoint()
    for number in range(5):
        assert not is_open(endpoint)
        endpoint, _ = after_try(endpoint, make_delivery(), FAILURE, number, lambda: 0.0)
    assert is_open(endpoint)
    assert next_probe_ms(endpoint) == 4 + PROBE_MS
    endpoint, delivery = after_try(endpoint, make_delivery(), Answer(204, ""), 9, lambda: 0.0)
    assert not is_open(endpoint)
    assert (delivery.state, endpoint.failing_since) == (DELIVERED, None)


def test_an_endpoint_is_switched_off_after_five_days_without_a_success() -> None:
    endpoint = make_endpoint()
    for now_ms in (0, 4 * DAY_MS):
        endpoint, _ = after_try(endpoint, make_delivery(), FAILURE, now_ms, lambda: 0.0)
        assert endpoint.disabled == ""
    endpoint, _ = after_try(endpoint, make_delivery(), FAILURE, 5 * DAY_MS, lambda: 0.0)
    assert endpoint.disabled == "no success for 5 days; the last answer: 500"


@pytest.mark.parametrize(
    ("glob", "name", "expected"),
    [
        ("*", "record.created", True),
        ("record.*", "record.created", True),
        ("record.*", "memory.created", False),
        ("*.deleted", "memory.deleted", True),
        ("record.created", "record.created", True),
        ("r*d.c*d", "record.created", True),
        ("record.create", "record.created", False),
    ],
)
def test_patterns_match_types_of_events(glob: str, name: str, expected: bool) -> None:
    assert matches(glob, name) is expected


def test_a_shown_url_has_no_path() -> None:
    shown = show_url("https://hooks.slack.com/services/T0/B0/secret?x=1")
    assert shown.startswith("https://hooks.slack.com/…#")
    assert "secret" not in shown
    assert shown != show_url("https://hooks.slack.com/services/T0/B0/other?x=1")
    assert show_url("env:SLACK_URL") == "env:SLACK_URL"
