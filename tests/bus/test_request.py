"""Requests to a real worker: the report comes when the whole cascade has ended."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.errors import NoAnswer
from memrelay.bus.request import Requester
from memrelay.bus.streams.entry import NewEntry
from tests.support.bundles import (
    Json,
    make_agent,
    make_bundle,
    make_commands,
    make_memory,
    make_uid,
)
from tests.support.client import make_envelope
from tests.support.locks import locked
from tests.support.system import TestSystem
from tests.support.worker_reports import await_paused

NOTES = "instances/${pipeline_uid}/notes"


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker()
        yield system


def deploy(system: TestSystem, *agents: Json) -> str:
    """Deploy a new pipeline and return its uid; without agents it has the five commands."""
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
    return uid


def say(system: TestSystem, uid: str, *texts: str, within_s: float = 60) -> list[dict[str, Any]]:
    """Send texts concurrently and return their reports."""

    async def run() -> list[dict[str, Any]]:
        async with Requester(Address(path=str(system.client.socket))) as requester:
            entries = [NewEntry(uid, make_envelope(text), "chat") for text in texts]
            return await asyncio.gather(*[requester.say(entry, within_s) for entry in entries])

    return asyncio.run(run())


def texts_of(report: dict[str, Any]) -> list[str]:
    return [result["args"][0]["text"] for result in report["results"]]


def test_a_report_contains_the_final_messages(system: TestSystem) -> None:
    (report,) = say(system, deploy(system), "/search nothing like this")

    assert report["settled"] is True
    assert [result["from"] for result in report["results"]] == ["memory_search"]
    assert texts_of(report) == ["[]"]
    assert report.keys() == {"id", "settled", "results"}


def test_concurrent_requests_get_their_own_reports(system: TestSystem) -> None:
    uid = deploy(system, make_agent("plus", "add_1", senders="User"))

    reports = say(system, uid, *map(str, range(200)))

    assert [texts_of(report) for report in reports] == [[str(number + 1)] for number in range(200)]


def test_a_message_without_results_is_reported(system: TestSystem) -> None:
    (report,) = say(system, deploy(system), "hello")

    assert report["settled"] is True
    assert report["results"] == []


def test_an_agent_that_does_not_publish_is_reported_as_silent(system: TestSystem) -> None:
    quiet = make_memory("write", senders="User") | {"wf_publish_results": False}

    (report,) = say(system, deploy(system, quiet), "tea")

    assert (report["results"], report["silent"]) == ([], ["memory_write_"])


def test_a_dead_letter_is_reported_with_its_reason(system: TestSystem) -> None:
    (report,) = say(system, deploy(system, make_agent("plus", "add_1")), "1")

    assert report["results"] == []
    assert "worker.max_hops" in report["errors"][0]


def test_a_report_waits_for_steps_in_other_stores(system: TestSystem) -> None:
    note = make_memory("write", senders="memory_search", memory_id=NOTES, alias="note")
    more = make_memory(
        "append", senders="note", memory_id="instances/${pipeline_uid}/more", alias="more"
    )
    uid = deploy(system, *make_commands(), note, more)

    (report,) = say(system, uid, "/search tea")

    assert [result["from"] for result in report["results"]] == ["more"]
    assert (len(system.contents(uid, "notes")), len(system.contents(uid, "more"))) == (1, 1)


def test_a_message_to_an_unserved_pipeline_is_kept_and_not_answered(
    system: TestSystem,
) -> None:
    uid = make_uid()

    with pytest.raises(NoAnswer, match="kept in the input"):
        say(system, uid, "/write tea", within_s=0.2)

    system.deploy(make_bundle(uid))
    system.client.await_quiet(uid)
    assert system.contents(uid) == ["tea"]


def test_a_message_to_a_paused_pipeline_is_kept_and_the_reason_reported(
    system: TestSystem,
) -> None:
    uid = deploy(system)
    say(system, uid, "/write tea")
    with locked(system.store_file(uid)):
        system.client.enter(uid, "/write coffee")
        await_paused(system, uid, "locked")
        with pytest.raises(NoAnswer, match="runs when the paused pipeline is resumed") as raised:
            say(system, uid, "/write cocoa", within_s=0.2)

    assert "is locked by another program" in raised.value.paused
    system.client.await_quiet(uid)
    assert system.contents(uid) == ["tea", "coffee", "cocoa"]
