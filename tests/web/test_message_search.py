"""GET /v1/pipelines/UID/messages and its page: text, agent, state, swarm, time, and the bounds."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from memrelay.web.trace import search
from tests.support.bundles import make_agent, make_commands, make_memory, make_relay
from tests.support.http import Answer
from tests.support.keys import await_closed, make_key
from tests.support.pages import text_of
from tests.support.web_system import WebSystem

FILLERS = [f"filler {number}" for number in range(search.MAX_LOOKED + 100)]
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def find(web_system: WebSystem, uid: str, **given: Any) -> dict[str, Any]:
    answer = web_system.get(f"/v1/pipelines/{uid}/messages?{urlencode(given)}")
    assert answer.status == 200, answer
    return dict(answer.json)


def texts(web_system: WebSystem, uid: str, **given: Any) -> list[str]:
    return [one["text"] for one in find(web_system, uid, **given)["items"]]


def page(web_system: WebSystem, uid: str, **given: Any) -> Answer:
    answer = web_system.get(f"/pipelines/{uid}/messages?{urlencode(given)}")
    assert answer.status == 200, answer
    return answer


def say(web_system: WebSystem, uid: str, text: str, swarm: str = "chat", **fields: str) -> str:
    answer = web_system.say(uid, {"text": text} | fields, swarm=swarm, query="?wait=60")
    assert answer.status == 200, answer
    return str(answer.json["message_id"])


def deploy_loop(web_system: WebSystem, *agents: Any) -> str:
    """Deploy the memory commands, and an agent that fails on the swarm `loop`."""
    return web_system.deploy(
        *make_commands(), make_agent("plus", "add_1", on="loop", to="loop"), *agents
    )


def test_messages_are_found_by_words_without_regard_to_case(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    entry = say(web_system, uid, "/write Green TEA in the morning")
    say(web_system, uid, "/write coffee in the morning")

    found = find(web_system, uid, text="morning tea")

    assert [one["text"] for one in found["items"]] == [
        "Green TEA in the morning",
        "/write Green TEA in the morning",
    ]
    first, last = found["items"]
    assert (first["from"], first["agent"], first["swarm"]) == (
        "dispatch_write",
        "dispatch_write_",
        "chat",
    )
    assert (last["from"], last["agent"], last["state"]) == ("User", "", "processed")
    assert {first["entry"], last["entry"]} == {entry}
    assert (found["next_cursor"], found["looked"]) == (None, 6)
    assert texts(web_system, uid, text="TEA CAFÉ") == []


def test_an_agent_is_found_by_alias_and_by_name_and_a_sender_by_name(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()
    say(web_system, uid, "/write tea")

    by_alias = texts(web_system, uid, agent="dispatch_write_")
    by_name = texts(web_system, uid, agent="Dispatch_Write")

    assert by_alias == by_name == ["tea"]
    assert texts(web_system, uid, agent="user") == ["/write tea"]
    assert texts(web_system, uid, agent="memory_read_") == []


def test_failed_messages_are_found_with_their_reason(web_system: WebSystem) -> None:
    uid = deploy_loop(web_system)
    say(web_system, uid, "/write tea")
    ident = web_system.system.client.enter(uid, "1", swarm="loop")
    web_system.system.await_dead_letter(uid, ident)

    (failed,) = find(web_system, uid, state="failed")["items"]

    assert (failed["text"], failed["dead_letter"], failed["swarm"]) == ("1", ident, "loop")
    assert failed["reason"].startswith("TooManyHops") and failed["entry"] == ident
    assert next(one["state"] for one in find(web_system, uid)["items"]) == "failed"
    assert texts(web_system, uid, state="processed", swarm="loop") == []
    shown = text_of(page(web_system, uid, state="failed"))
    assert "TooManyHops" in shown and "Failed" in shown


def test_messages_that_wait_for_flow_control_are_parked(web_system: WebSystem) -> None:
    slow = make_memory("write", senders="Slow", alias="slow") | {"wf_flow": {"debounce_s": 600}}
    uid = web_system.deploy(slow)
    say(web_system, uid, "wait for me", **{"from": "Slow"})
    say(web_system, uid, "done at once")

    assert texts(web_system, uid, state="parked") == ["wait for me"]
    assert texts(web_system, uid, state="processed") == ["done at once"]


def test_waiting_messages_are_found_while_no_worker_runs() -> None:
    with WebSystem(worker=False) as web_system:
        uid = web_system.deploy_unserved()
        web_system.post(f"/v1/pipelines/{uid}/swarms/chat/messages", {"text": "/write tea"})

        (waiting,) = find(web_system, uid, text="tea", state="waiting")["items"]

    assert (waiting["state"], waiting["from"], waiting["swarm"]) == ("waiting", "User", "chat")


def test_times_limit_the_search_in_the_zone_of_the_viewer(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    say(web_system, uid, "first")
    (first,) = find(web_system, uid)["items"]
    local = first["at"][:19]  # UTC

    assert texts(web_system, uid, since=first["at"]) == ["first"]
    assert texts(web_system, uid, until=first["at"]) == []
    assert texts(web_system, uid, since=local, zone="UTC") == ["first"]
    assert texts(web_system, uid, until=local, zone="Etc/GMT-5") == []
    assert texts(web_system, uid, until=local, zone="Etc/GMT+5") == ["first"]
    assert "first" in text_of(page(web_system, uid, until=local[:16], zone="Etc/GMT+5"))


def test_pages_continue_where_the_one_before_ended_over_all_swarms(web_system: WebSystem) -> None:
    uid = web_system.deploy(
        make_relay("a", "^(.*)$", to="other"),
        make_agent("b", "regex_match", {"pattern": "x"}, on="other"),
    )
    for number in range(10):
        say(web_system, uid, f"number {number}")
    whole = [one["mid"] for one in find(web_system, uid)["items"]]

    mids, cursor = list[str](), ""
    while True:
        found = find(web_system, uid, limit=3, cursor=cursor)
        mids += [one["mid"] for one in found["items"]]
        cursor = found["next_cursor"]
        if cursor is None:
            break

    assert len(whole) == 20 and mids == whole
    assert {one["swarm"] for one in find(web_system, uid)["items"]} == {"chat", "other"}


def test_a_search_without_hits_ends_after_a_bounded_number_of_messages(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy(make_relay("echo", "^nothing$"))
    idents = web_system.system.client.enter_together(uid, FILLERS)
    web_system.system.client.await_done(uid, idents[-1])

    first = find(web_system, uid, text="needle")
    shown = page(web_system, uid, text="needle")

    assert first["items"] == [] and first["looked"] <= search.MAX_LOOKED and first["next_cursor"]
    assert "Looked through 2,000 messages until" in text_of(shown)
    assert b'rel="next"' in shown.body


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"state": "lost"}, "`state` must be one of processed, waiting, parked, failed"),
        ({"swarm": "nowhere"}, "`swarm` must be one of chat"),
        ({"since": "yesterday"}, "`since` must be a time like"),
        ({"since": "2026-01-01", "zone": "Mars/Olympus"}, "`zone`: unknown time zone"),
        ({"cursor": "x"}, "`cursor` is invalid"),
        ({"text": "a" * 501}, "`text` has more than 500 characters"),
        ({"color": "red"}, "unknown parameter 'color'"),
    ],
)
def test_a_wrong_condition_is_refused_with_the_rule(
    web_system: WebSystem, given: dict[str, str], reason: str
) -> None:
    uid = web_system.deploy()

    answer = web_system.get(f"/v1/pipelines/{uid}/messages?{urlencode(given)}")

    assert answer.status == 400 and reason in answer.json["detail"]
    if "color" not in given:
        assert reason in text_of(page(web_system, uid, **given))


def test_hostile_texts_and_conditions_are_shown_as_text(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    say(web_system, uid, f"/write {HOSTILE}")

    shown = page(web_system, uid, text=HOSTILE, agent=HOSTILE)
    found = page(web_system, uid, text="alert")

    assert b"<script>alert" not in shown.body + found.body
    assert HOSTILE.partition("alert")[0] in text_of(found)


def test_a_key_of_another_pipeline_finds_nothing() -> None:
    with WebSystem() as web_system:
        uid, other = web_system.deploy(), web_system.deploy()
        key = make_key(web_system.system.root, "read", pipelines=(other,))
        await_closed(web_system)

        answer = web_system.get(f"/v1/pipelines/{uid}/messages", Authorization=f"Bearer {key.text}")

    assert answer.status == 404
