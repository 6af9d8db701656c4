"""The timeline of a message: waits, blocks, commits, requests with their retries, deliveries."""

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.checked import CheckedBundle
from memrelay.web.trace.timeline import REST, Sources, format_ms, make_timeline
from tests.support.bundles import make_agent, make_bundle, make_commands
from tests.support.calls import call
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_service import WebService
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import Reply, WebhookReceiver

FAST = {"first_pause_s": 0.05, "longest_pause_s": 0.05}
NOTES = "instances/${pipeline_uid}/notes"


@pytest.fixture(scope="module")
def service() -> Iterator[WebService]:
    with WebService() as service:
        yield service


@pytest.fixture(scope="module")
def slow_system(service: WebService) -> Iterator[WebSystem]:
    """Return a system whose worker may call the service and endpoints of this machine."""
    with WebSystem(worker=False) as web_system:
        rules = service.rules | {"open_for": ["http", "endpoints"]}
        web_system.system.start_worker(outgoing=rules, limits=FAST)
        yield web_system


def send(web_system: WebSystem, uid: str, text: str) -> str:
    answer = web_system.say(uid, {"text": text}, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


def trace(web_system: WebSystem, uid: str, entry: str) -> dict[str, Any]:
    answer = web_system.get(f"/v1/pipelines/{uid}/messages/{entry}")
    assert answer.status == 200, answer
    return dict(answer.json)


def await_steps(web_system: WebSystem, uid: str, entry: str) -> list[dict[str, Any]]:
    """Return the steps when the bus has confirmed the last ones."""

    def find() -> list[dict[str, Any]]:
        steps = list(trace(web_system, uid, entry)["timeline"])
        return steps if steps and steps[-1]["kind"] == "publish" else []

    return wait_for(find, "the bus has confirmed the message")


def test_a_command_shows_its_wait_blocks_commit_and_publication(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    entry = send(web_system, uid, "/write tea")
    # A slow machine may have times between the steps.
    steps = [one for one in await_steps(web_system, uid, entry) if one["what"] != REST]

    assert [(one["kind"], one["block"]) for one in steps] == [
        ("wait", ""),
        ("run", "regex_match"),
        ("run", "memory_write"),
        ("commit", ""),
        ("publish", ""),
    ]
    assert [one["agent"] for one in steps[1:3]] == ["dispatch_write", "memory_write"]
    starts = [one["start_ms"] for one in steps]
    assert starts == sorted(starts) and starts[0] == 0
    assert all(one["took_ms"] >= 0 for one in steps)
    found = trace(web_system, uid, entry)
    assert found["took_ms"] == pytest.approx(starts[-1] + steps[-1]["took_ms"], abs=0.01)
    assert re.fullmatch(r"\d+ % of [\d.,<]+ m?s was .+\.", found["slowest"])


def test_a_request_and_the_pause_before_its_repeat_are_steps(
    slow_system: WebSystem, service: WebService
) -> None:
    service.script.append((503, b""))
    args = {"url": f"{service.url}/private-path?token=secret", "method": "POST"}
    uid = slow_system.deploy(make_agent("bot", "http_request", args, senders="User"))

    entry = send(slow_system, uid, "tea")
    steps = await_steps(slow_system, uid, entry)
    page = text_of(slow_system.get(f"/pipelines/{uid}/messages/{entry}"))

    requests = [one for one in steps if one["kind"] == "call"]
    assert [one["what"] for one in requests] == ["Request to 127.0.0.1"] * 2
    assert [one["detail"] for one in requests] == ["failed", ""]
    assert [(one["agent"], one["block"]) for one in requests] == [("bot", "http_request")] * 2
    (pause,) = [one for one in steps if one["kind"] == "pause"]
    assert requests[0]["start_ms"] < pause["start_ms"] < requests[1]["start_ms"]
    assert "Where the time went" in page and "Request to 127.0.0.1 http_request bot failed" in page
    assert "secret" not in page and "private-path" not in page


def test_the_tries_of_a_delivery_follow_the_message(slow_system: WebSystem) -> None:
    uid = slow_system.deploy(*make_commands(NOTES))
    with WebhookReceiver(Reply(500)) as receiver:
        made = {"url": receiver.url, "events": ["record.created"]}
        call(slow_system.system, uid, "endpoints.create", made)
        entry = send(slow_system, uid, "/write tea")
        receiver.wait(1)

        def find() -> str:
            page = text_of(slow_system.get(f"/pipelines/{uid}/messages/{entry}"))
            return page if "HTTP 500" in page else ""

        page = wait_for(find, "the trace shows the try")

    assert "Delivery, try 1 record.created" in page
    failed = slow_system.get(f"/pipelines/{uid}/messages?state=failed")
    assert "failed deliveries" in text_of(failed)


def test_a_message_that_the_worker_no_longer_knows_shows_its_published_messages() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy()
        entry = send(web_system, uid, "/write tea")
        web_system.system.workers[-1].kill()
        web_system.system.start_worker()

        page = text_of(web_system.get(f"/pipelines/{uid}/messages/{entry}"))

    assert "The worker no longer has the times of this message" in page
    assert "Until it was published" in page


def batch(entry: str, at_ms: float, **fields: Any) -> dict[str, Any]:
    return {
        "id": entry,
        "inputs": 1,
        "began_at_ms": at_ms,
        "took_ms": 10.0,
        "commit_ms": 4.0,
        "published_ms": 1.0,
        "blocks": (),
    } | fields


def test_a_retry_has_a_pause_and_a_large_batch_its_size() -> None:
    bundle = checked()
    entry = "1780000000000-0"
    batches = [
        batch(entry, 1_780_000_000_005.0, inputs=120),
        batch(entry, 1_780_000_001_000.0),
    ]

    found = make_timeline(bundle, entry, (), Sources({"batches": batches, "calls": ()}))

    assert [(step.what, step.detail) for step in found.steps] == [
        ("Wait for the worker", ""),
        ("Batch", "with 119 others"),
        ("Commit", "with 119 others"),
        ("Publish", ""),
        ("Pause before the next attempt", ""),
        ("Batch", ""),
        ("Commit", ""),
        ("Publish", ""),
    ]
    assert found.summary == "97 % of 1.01 s was the pause before the next attempt."
    assert found.total_ms == 1011.0


def checked() -> CheckedBundle:
    """Return the checked bundle of the five commands."""
    bundle = check(orjson.dumps(make_bundle("abcd1234")), uid="abcd1234").bundle
    assert bundle is not None
    return bundle


@pytest.mark.parametrize(
    ("took_ms", "text"),
    [
        (0.0, "<0.1 ms"),
        (0.44, "0.4 ms"),
        (12.3, "12 ms"),
        (1310.0, "1.31 s"),
        (12_345.0, "12.3 s"),
        (125_000.0, "2 min 5 s"),
        (3_720_000.0, "1 h 2 min"),
    ],
)
def test_durations_have_three_digits_and_a_unit(took_ms: float, text: str) -> None:
    assert format_ms(took_ms) == text


def test_the_times_between_steps_are_named() -> None:
    batch = {
        "id": "1000-0",
        "inputs": 1,
        "began_at_ms": 1010.0,
        "took_ms": 100.0,
        "commit_ms": 5.0,
        "published_ms": None,
        "blocks": [{"agent": "dispatch_write_", "start_ms": 30.0, "took_ms": 20.0}],
    }
    bundle = check(orjson.dumps(make_bundle("abcd1234", *make_commands())), uid="abcd1234").bundle

    found = make_timeline(bundle, "1000-0", [], Sources({"batches": [batch], "calls": []}))

    ends = [0.0, *(step.end_ms for step in found.steps)]
    assert [step.start_ms for step in found.steps] == pytest.approx(ends[:-1])
    assert [step.what for step in found.steps].count(REST) == 2
    assert found.total_ms == pytest.approx(110.0)
