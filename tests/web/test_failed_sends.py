"""Requests of blocks that fail, and messages that no agent accepts, in the console."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.web.console.pages.home import HOURLY, Need, _list_hourly_needs
from tests.support.bundles import make_agent
from tests.support.figures import START, make_row
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def deploy(web_system: WebSystem, *agents: Any) -> str:
    send = {"url": "http://10.1.2.3/hook", "method": "POST"}
    return web_system.deploy(*agents, make_agent("sender", "http_request", send, senders="User"))


def say(web_system: WebSystem, uid: str, text: str) -> str:
    answer = web_system.say(uid, {"text": text}, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


def find(web_system: WebSystem, uid: str, query: str) -> Any:
    answer = web_system.get(f"/v1/pipelines/{uid}/messages?{query}")
    assert answer.status == 200, answer
    return answer.json["items"]


def test_a_failed_send_is_red_in_messages_and_trace_and_is_counted(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    entry = say(web_system, uid, '{"tea": 1}')

    wait_for(lambda: find(web_system, uid, "state=send_failed"), "the send has failed")
    (failed,) = find(web_system, uid, "state=send_failed")
    rows = web_system.get("/status?format=json").json["pipelines"]
    page = text_of(web_system.get(f"/pipelines/{uid}/messages?state=send_failed"))
    trace = text_of(web_system.get(f"/pipelines/{uid}/messages/{entry}"))

    assert "10.1.2.3" in failed["reason"] and failed["entry"] == entry
    assert failed["took_ms"] >= 0
    assert "Send failed" in page and failed["reason"][:60] in page
    assert f"Send failed: {failed['reason'][:60]}" in trace
    assert wait_for(
        lambda: next(
            row["failed_sends"]
            for row in web_system.get("/status?format=json").json["pipelines"]
            if row["pipeline_uid"] == uid
        ),
        f"the failed send is counted: {rows}",
    )


def test_messages_are_found_by_how_long_they_took(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1", senders="User"))
    say(web_system, uid, "1")

    assert find(web_system, uid, "took_ms=0")
    assert find(web_system, uid, "took_ms=9000000") == []
    page = web_system.get(f"/pipelines/{uid}/messages?since=2026-01-01T00:00:00.000Z&took_ms=1")
    assert b'value="2026-01-01T00:00:00"' in page.body
    refused = web_system.get(f"/v1/pipelines/{uid}/messages?took_ms=soon")
    assert refused.status == 400 and "whole number" in refused.problem[1]


def test_the_word_is_marked_where_it_was_found(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("plus", "add_1", senders="nobody"))
    say(web_system, uid, '{"issue": {"title": "The <b>login</b> fails"}, "action": "opened"}')

    page = web_system.get(f"/pipelines/{uid}/messages?text=login").body

    assert b"<code>issue.title</code> The &lt;b&gt;<mark>login</mark>&lt;/b&gt; fails" in page


def test_an_unheard_message_names_the_agents_that_did_not_accept_it(
    web_system: WebSystem,
) -> None:
    opened = {"expression": "action == 'opened'"}
    match = make_agent("match", "json_match", opened, senders="User")
    hook = make_agent("hook", "json_match", opened, senders="nobody")
    uid = web_system.deploy(match, hook | {"agent_alias": "hook"})
    entry = say(web_system, uid, '{"action": "closed"}')
    sent = web_system.post(f"/webhooks/{uid}/hook", {"action": "closed"})
    assert sent.status == 202, sent

    trace = text_of(web_system.get(f"/pipelines/{uid}/messages/{entry}"))
    path = f"/pipelines/{uid}/messages/{sent.json['message_id']}"
    wait_for(
        lambda: b"<strong>Webhook</strong>" in web_system.get(path).body, "the request is listed"
    )
    webhook = text_of(web_system.get(path))

    assert "not accepted" in trace and "json_match" in trace and "action == 'opened'" in trace
    assert "hook" in webhook and "action == 'opened'" in webhook and "inputs_days" in webhook


class Recorded:
    """The figures of an hour in which two pipelines had faults."""

    until = START
    steps = ((START - 60, {"unsent": 2.0, "refused": 1.0}), (START - 7200, {"unsent": 9.0}))


class Figures:
    async def read(self, span: str, caller: Any, uid: str = "") -> Any:
        return Recorded

    async def share(self, name: str, caller: Any, make: Any) -> Any:
        return await make()


def test_failed_sends_of_the_last_hour_need_a_person() -> None:
    rows = [make_row("u") | {"name": "tea"}]

    needs = asyncio.run(_list_hourly_needs(Figures(), None, rows))  # type: ignore[arg-type]

    assert needs == [
        Need("bad", "tea", "2 sends failed in the last hour", f"/pipelines/u{HOURLY['unsent'][1]}"),
        Need(
            "slow",
            "tea",
            "1 refused webhook in the last hour",
            f"/pipelines/u{HOURLY['refused'][1]}",
        ),
    ]
