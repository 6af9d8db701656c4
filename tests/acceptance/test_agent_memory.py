"""The acceptance statements of agent memory, against a running product.

Each statement has a pipeline of its own, so that its store is empty.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from tests.support.bundles import make_agent, make_relay
from tests.support.http import ask
from tests.support.web_system import WebSystem


class Pipeline:
    """A pipeline with the relays `/recall` and `/remember` and their blocks."""

    def __init__(self, web_system: WebSystem, **args: Any) -> None:
        agents = [
            make_relay("recall", r"^/recall\s*(.*)", flags="s"),
            make_relay("remember", r"^/remember\s+(.*)", flags="s"),
            make_agent("recaller", "recall", senders="dispatch_recall"),
            make_agent("keeper", "remember", args, senders="dispatch_remember"),
        ]
        self._web_system, self.uid = web_system, web_system.deploy(*agents)

    def say(self, text: str) -> str:
        """Return the answer of the block to a chat message."""
        answer = self._web_system.say(self.uid, {"text": text}, query="?wait=60")
        return str(answer.texts[-1])

    def call(self, verb: str, path: str, **given: Any) -> Any:
        """Return the answer of an operation over HTTP."""
        url = f"/v1/pipelines/{self.uid}/facts{path}"
        return ask(self._web_system.url, verb, url, given or b"")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


def test_01_a_fact_is_remembered_updated_and_recalled(web_system: WebSystem) -> None:
    pipeline = Pipeline(web_system)

    assert pipeline.say("/remember color = blue") == "Remembered: color = blue (created)"
    assert pipeline.say("/remember color = green") == "Remembered: color = green (updated)"
    assert pipeline.say("/recall color") == "color = green"


def test_02_an_empty_store_says_so(web_system: WebSystem) -> None:
    pipeline = Pipeline(web_system)

    assert pipeline.say("/recall") == "Memory is empty — no facts stored."
    assert pipeline.say("/recall nope") == "No memory found for key: nope"


def test_03_a_query_ignores_separators(web_system: WebSystem) -> None:
    pipeline, times = Pipeline(web_system), {"lesson_local_time_command", "local_time_zone"}
    for key in (*times, "get-local-time", "color"):
        pipeline.say(f"/remember {key} = x")

    found = orjson.loads(pipeline.say('/recall {"query": "local time"}'))

    assert {one["key"] for one in found} == times | {"get-local-time"}


def test_04_without_overwrite_the_first_value_stays(web_system: WebSystem) -> None:
    pipeline = Pipeline(web_system, overwrite=False)
    pipeline.say("/remember color = blue")

    assert pipeline.say("/remember color = red") == "Remembered: color = blue (skipped)"


def test_05_the_fact_of_a_user_wins_for_that_user(web_system: WebSystem) -> None:
    pipeline = Pipeline(web_system)
    pipeline.call("POST", "/lang/set", value="en")
    pipeline.call("POST", "/lang/set", value="de", scope="user", user_id="u1")

    values = [pipeline.call("GET", f"/lang?user_id={user}").json["value"] for user in ("u1", "u2")]
    assert values == ["de", "en"]


def test_concurrent_writes_leave_one_fact_and_no_count_is_lost(web_system: WebSystem) -> None:
    pipeline = Pipeline(web_system)
    with ThreadPoolExecutor(16) as threads:
        writes = [
            threads.submit(pipeline.call, "POST", "/color/set", value=number)
            for number in range(64)
        ]
        actions = sorted(write.result().json["action"] for write in writes)
        recalls = [threads.submit(pipeline.call, "POST", "/color/recall") for _ in range(1000)]
        assert {recall.result().status for recall in recalls} == {200}

    page = pipeline.call("GET", "").json
    assert actions == ["created"] + ["updated"] * 63
    assert (page["total"], page["items"][0]["access_count"]) == (1, 1000)
    assert page["items"][0]["times_confirmed"] == 64
