"""Routing on a real bus: which agents receive a message, and what they publish."""

import time
from typing import Any

import orjson
import pytest

from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay, make_uid
from tests.support.client import Subscriber, make_envelope
from tests.support.system import TestSystem


def deploy(system: TestSystem, *agents: Json) -> str:
    """Deploy a new pipeline, by default with the five commands, and return its uid."""
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
    return uid


def test_all_five_commands_are_answered_over_the_bus(system: TestSystem) -> None:
    uid = deploy(system)

    guid = system.client.answer(uid, "/write The meeting is at 3pm")["guid"]
    (found,) = system.client.answer(uid, "/search meeting")
    more = system.client.answer(uid, "/append bring the slides")
    read = system.client.answer(uid, "/read")
    deleted = system.client.answer(uid, f"/delete {guid}")

    assert (found["guid"], found["content"], found["source"]) == (
        guid,
        "The meeting is at 3pm",
        "memory_write",
    )
    assert more.keys() == {"guid", "created"}
    assert [record["content"] for record in read] == ["The meeting is at 3pm", "bring the slides"]
    assert deleted == {"deleted": 1}
    assert system.contents(uid) == ["bring the slides"]


def test_every_hop_has_its_own_sender_and_id(system: TestSystem) -> None:
    uid = deploy(system)

    hops = system.client.ask(uid, "/write tea")

    assert [hop.sender for hop in hops] == ["User", "dispatch_write", "memory_write"]
    assert [hop.text for hop in hops[:2]] == ["/write tea", "tea"]
    assert len({hop.mid for hop in hops}) == 3


def test_live_copies_match_the_log_in_order(system: TestSystem) -> None:
    uid = deploy(system)

    with Subscriber(system.client, uid) as subscriber:
        logged = system.client.ask(uid, "/write tea")
        heard = [
            orjson.loads(payload)
            for payload in subscriber.until(lambda payload: b"memory_write" in payload)
        ]

    assert [copy.pop("mid") for copy in heard] == [said.mid for said in logged]
    assert heard == [said.envelope for said in logged]


def test_an_answer_has_id_type_user_and_time_in_ms(
    system: TestSystem,
) -> None:
    uid = deploy(system)
    began_ms = time.time() * 1000

    answer = system.client.ask(uid, "/write tea")[-1].envelope

    (part,) = answer["args"]
    assert (answer["id"], part["type"], part["username"]) == (
        "me",
        "application/json",
        "memory_write",
    )
    assert began_ms - 1000 < part["timestamp"] < time.time() * 1000 + 1000


@pytest.mark.parametrize(
    ("agent_from", "heard"),
    [
        ("keeper", ["keeper"]),
        ("*", ["keeper", "guest", "third"]),
        ("", ["keeper", "guest", "third"]),
        ("!keeper", ["guest", "third"]),
        (["keeper", "guest"], ["keeper", "guest"]),
        (["!keeper", "!guest"], ["third"]),
        ("nobody", []),
    ],
)
def test_agent_from_selects_senders(system: TestSystem, agent_from: Any, heard: list[str]) -> None:
    uid = deploy(system, make_agent("plus", "add_1", senders=agent_from, to="sums"))

    for number, sender in enumerate(["keeper", "guest", "third"]):
        system.client.ask(uid, str(number), sender=sender)

    sums = [said.text for said in system.client.log(uid, "sums")]
    assert sums == [str(["keeper", "guest", "third"].index(sender) + 1) for sender in heard]


def test_agent_from_matches_names_and_not_aliases(system: TestSystem) -> None:
    first = make_agent("first", "add_1", senders="User")
    uid = deploy(
        system,
        first,
        make_agent("by_name", "add_1", senders="first"),
        make_agent("by_alias", "add_1", senders="first_"),
    )

    hops = system.client.ask(uid, "1")

    assert [(hop.sender, hop.text) for hop in hops] == [
        ("User", "1"),
        ("first", "2"),
        ("by_name", "3"),
    ]


def test_agents_receive_a_message_in_the_order_of_the_bundle(system: TestSystem) -> None:
    agents = [
        make_agent(f"plus{amount}", "add_1", {"amount": amount}, senders="User")
        for amount in (5, 3, 9)
    ]
    uid = deploy(system, *agents)

    hops = system.client.ask(uid, "1")

    assert [hop.text for hop in hops] == ["1", "6", "4", "10"]


def test_a_message_goes_from_swarm_to_swarm(system: TestSystem) -> None:
    relay = make_relay("write", r"^/write\s+(.*)", to="inner")
    uid = deploy(
        system,
        relay,
        make_memory("write") | {"agent_rec_swarm": "inner", "agent_send_swarm": "out"},
    )

    said = system.client.ask(uid, "/write tea")

    (relayed,), (answer,) = system.client.log(uid, "inner"), system.client.log(uid, "out")
    assert [hop.text for hop in said] == ["/write tea"]
    assert (relayed.sender, relayed.text, answer.sender) == (
        "dispatch_write",
        "tea",
        "memory_write",
    )
    assert {relayed.input, answer.input} == {said[0].input}


def test_an_agent_that_does_not_publish_still_runs(system: TestSystem) -> None:
    uid = deploy(system, make_memory("write", senders="User") | {"wf_publish_results": False})

    said = system.client.ask(uid, "tea")

    assert [hop.text for hop in said] == ["tea"]
    assert system.contents(uid) == ["tea"]


def test_an_unmatched_message_is_only_logged(system: TestSystem) -> None:
    uid = deploy(system)

    said = system.client.ask(uid, "hello there")

    assert [hop.text for hop in said] == ["hello there"]
    assert not system.dead_letters(uid)


def test_a_relay_answers_only_what_it_matches_and_a_filter_passes_the_rest(
    system: TestSystem,
) -> None:
    talk = make_agent(
        "talk", "regex_filter", {"pattern": "^/", "invert": True}, senders="User", to="talk"
    )
    uid = deploy(system, make_relay("write", r"^/write\s+(.*)"), talk)

    for text in ("/write tea", "hello", "/other", "write tea"):
        system.client.ask(uid, text)

    assert [said.text for said in system.client.log(uid) if said.sender == "dispatch_write"] == [
        "tea"
    ]
    assert [said.text for said in system.client.log(uid, "talk")] == ["hello", "write tea"]


def test_a_filter_changes_only_the_sender(system: TestSystem) -> None:
    uid = deploy(
        system, make_agent("all", "regex_filter", {"pattern": ""}, senders="User", to="out")
    )
    parts = [
        {"text": "tea", "username": "Ann", "timestamp": 1_700_000_000, "type": "text/x"},
        {"text": "more"},
    ]

    ident = system.client.enter_raw(uid, make_envelope("", args=parts))
    system.client.await_done(uid, ident)

    (passed,) = system.client.log(uid, "out")
    assert (passed.sender, passed.envelope["id"], passed.envelope["args"][0]) == (
        "all",
        "me",
        parts[0],
    )
    assert [part["text"] for part in passed.envelope["args"]] == ["tea", "more"]


def test_a_filter_keeps_unknown_keys(system: TestSystem) -> None:
    uid = deploy(
        system, make_agent("all", "regex_filter", {"pattern": ""}, senders="User", to="out")
    )

    ident = system.client.enter_raw(
        uid, make_envelope("", args=[{"text": "tea", "colour": "green"}])
    )
    system.client.await_done(uid, ident)

    (passed,) = system.client.log(uid, "out")
    assert passed.envelope["args"][0]["colour"] == "green"


def test_messages_run_first_in_first_out(system: TestSystem) -> None:
    uid = deploy(system)

    system.client.enter_together(uid, [f"/write {number}" for number in range(600)])
    system.client.await_quiet(uid)

    assert system.contents(uid) == [str(number) for number in range(600)]
    relayed = [said.text for said in system.client.log(uid) if said.sender == "dispatch_write"]
    assert relayed == [str(number) for number in range(600)]


def test_a_read_sees_exactly_the_writes_before_it_in_the_batch(system: TestSystem) -> None:
    uid = deploy(system)

    idents = system.client.enter_together(
        uid, ["/write one", "/read", "/write two", "/search two", "/read"]
    )
    system.client.await_quiet(uid)

    answers = {said.input: said.text for said in system.client.log(uid)}
    first, found, second = [orjson.loads(answers[idents[at]]) for at in (1, 3, 4)]
    assert [record["content"] for record in first] == ["one"]
    assert [record["content"] for record in found] == ["two"]
    assert [record["content"] for record in second] == ["one", "two"]


def test_the_text_of_a_message_is_kept_unchanged(system: TestSystem) -> None:
    uid = deploy(
        system,
        make_memory("write", senders="User"),
        make_relay("read", "^/read$"),
        make_memory("read"),
    )
    texts = [
        "  tea  ",
        "a\x00b",
        'say "hi"',
        "line\nline\r\n\ttab",
        "\u2028\U0001f375",
        "NEAR(a b)*",
        "\\ud800",
        "'; DROP--",
    ]

    for text in texts:
        system.client.ask(uid, text)

    assert [
        record["content"] for record in system.client.answer(uid, "/read")[: len(texts)]
    ] == texts
