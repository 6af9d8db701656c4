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
from tests.support.served import Served


class Pipeline:
    """A pipeline with the relays `/recall` and `/remember` and their blocks."""

    def __init__(self, served: Served, **args: Any) -> None:
        agents = [
            make_relay("recall", r"^/recall\s*(.*)", flags="s"),
            make_relay("remember", r"^/remember\s+(.*)", flags="s"),
            make_agent("recaller", "recall", hears="dispatch_recall"),
            make_agent("keeper", "remember", args, hears="dispatch_remember"),
        ]
        self._served, self.uid = served, served.deploy(*agents)

    def say(self, text: str) -> str:
        """Return the answer of the block to a chat message."""
        answer = self._served.say(self.uid, {"text": text}, query="?wait=60")
        return str(answer.texts[-1])

    def call(self, verb: str, path: str, **given: Any) -> Any:
        """Return the answer of an operation over HTTP."""
        url = f"/v1/pipelines/{self.uid}/facts{path}"
        return ask(self._served.url, verb, url, given or b"")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(WEB__RATE="0") as served:
        yield served


def test_01_a_fact_is_remembered_updated_and_recalled(served: Served) -> None:
    pipeline = Pipeline(served)

    assert pipeline.say("/remember color = blue") == "Remembered: color = blue (created)"
    assert pipeline.say("/remember color = green") == "Remembered: color = green (updated)"
    assert pipeline.say("/recall color") == "color = green"


def test_02_an_empty_store_says_so(served: Served) -> None:
    pipeline = Pipeline(served)

    assert pipeline.say("/recall") == "Memory is empty — no facts stored."
    assert pipeline.say("/recall nope") == "No memory found for key: nope"


def test_03_a_query_ignores_separators(served: Served) -> None:
    pipeline, times = Pipeline(served), {"lesson_local_time_command", "local_time_zone"}
    for key in (*times, "get-local-time", "color"):
        pipeline.say(f"/remember {key} = x")

    found = orjson.loads(pipeline.say('/recall {"query": "local time"}'))

    assert {one["key"] for one in found} == times | {"get-local-time"}


def test_04_without_overwrite_the_first_value_stays(served: Served) -> None:
    pipeline = Pipeline(served, overwrite=False)
    pipeline.say("/remember color = blue")

    assert pipeline.say("/remember color = red") == "Remembered: color = blue (skipped)"


def test_05_the_fact_of_a_user_wins_for_that_user(served: Served) -> None:
    pipeline = Pipeline(served)
    pipeline.call("POST", "/lang/set", value="en")
    pipeline.call("POST", "/lang/set", value="de", scope="user", user_id="u1")

    values = [pipeline.call("GET", f"/lang?user_id={user}").json["value"] for user in ("u1", "u2")]
    assert values == ["de", "en"]


def test_concurrent_writes_leave_one_fact_and_no_count_is_lost(served: Served) -> None:
    pipeline = Pipeline(served)
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
    assert page["items"][0]["times_confirmed"] == 63
