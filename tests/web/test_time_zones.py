"""The time zone of a query: the call, the user, the bundle, and the setting, in this order."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle, make_uid
from tests.support.http import ask
from tests.support.program import Program
from tests.support.web_system import WebSystem

# Their dates always differ, by a day or two.
EARLY, LATE = "Pacific/Kiritimati", "Etc/GMT+12"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(MEMORY__TIMEZONE=LATE) as web_system:
        yield web_system


def deploy(web_system: WebSystem, *agents: dict[str, Any], **keys: Any) -> tuple[str, str]:
    """Deploy a pipeline with a record of now. Return its uid, and a query for records since the
    beginning of the day where it begins first.
    """
    query = f"tea after:{datetime.now(ZoneInfo(EARLY)).date()}"
    uid = make_uid()
    assert web_system.post("/v1/pipelines", make_bundle(uid, *agents) | keys).status == 201
    written = web_system.post(f"/v1/pipelines/{uid}/records", {"content": "tea"})
    assert written.status == 201, written
    return uid, query


def count(web_system: WebSystem, uid: str, query: str, **given: str) -> int:
    answer = web_system.post(f"/v1/pipelines/{uid}/records/search", {"query": query} | given)
    assert answer.status == 200, answer
    return len(answer.json["items"])


def count_over_mcp(web_system: WebSystem, path: str, query: str, **given: str) -> int:
    call = {"name": "memory_search", "arguments": {"query": query} | given}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = web_system.post(
        path, orjson.dumps(body), **{"Content-Type": "application/json", "Accept": "*/*"}
    )
    assert "result" in answer.json, answer
    return len(answer.json["result"]["structuredContent"]["items"])


def test_a_deploy_keeps_the_setting_in_the_version(web_system: WebSystem) -> None:
    uid, query = deploy(web_system)

    bundle = web_system.get(f"/v1/pipelines/{uid}").json["bundle"]

    # It is still yesterday there.
    assert bundle["timezone"] == LATE and count(web_system, uid, query) == 0


def test_a_call_and_a_client_come_before_the_bundle(web_system: WebSystem) -> None:
    uid, query = deploy(web_system, timezone=EARLY)

    assert count(web_system, uid, query) == 1
    assert count(web_system, uid, query, timezone=LATE) == 0
    assert count_over_mcp(web_system, f"/mcp/{uid}", query) == 1
    assert count_over_mcp(web_system, f"/mcp/{uid}?timezone={quote(LATE)}", query) == 0
    assert (
        count_over_mcp(web_system, f"/mcp/{uid}?timezone={quote(LATE)}", query, timezone=EARLY) == 1
    )


def test_the_zone_of_an_agent_comes_before_that_of_its_bundle(web_system: WebSystem) -> None:
    args = {"memory_id": "instances/${pipeline_uid}/memories"}
    agents = [
        make_agent(name, "memory_search", args, senders="User") | {"wf_timezone": zone}
        for name, zone in (("early", EARLY), ("late", ""))
    ]
    uid, query = deploy(web_system, *agents)

    texts = web_system.say(uid, {"text": query}, query="?wait=60").texts

    assert sorted(len(orjson.loads(text)) for text in texts) == [0, 1]


def test_an_unknown_zone_is_refused(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    refused = [
        web_system.post("/v1/pipelines", make_bundle(make_uid()) | {"timezone": "Mars"}),
        web_system.post(
            f"/v1/pipelines/{uid}/records/search", {"query": "tea", "timezone": "Mars"}
        ),
        web_system.post(f"/mcp/{uid}?timezone=Mars", {}),
    ]

    assert [answer.status for answer in refused] == [422] * 3
    assert all(b"unknown time zone 'Mars'" in answer.body for answer in refused)


@pytest.mark.slow
def test_the_first_start_writes_the_zone_of_the_machine() -> None:
    with Program() as program:
        program.environment["TZ"] = EARLY
        program.up()
        program.environment["TZ"] = LATE
        assert program.end() == 0
        program.up()
        (uid,) = [one["pipeline_uid"] for one in program.run("ls").lines]
        url = program.output.rpartition("Open ")[2].partition(" in")[0]
        bundle = ask(url, "GET", f"/v1/pipelines/{uid}").json["bundle"]
        assert program.end() == 0

    assert bundle["timezone"] == EARLY
