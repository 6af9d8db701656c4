"""Routing on a real bus: which agents receive a message, and what they publish."""

import time
from typing import Any

import orjson
import pytest

from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay, make_uid
from tests.support.client import Ear, make_envelope
from tests.support.house import House


def deploy(house: House, *agents: Json) -> str:
    """Deploy a new pipeline, by default with the five commands, and return its uid."""
    uid = make_uid()
    house.deploy(make_bundle(uid, *agents))
    return uid


def test_all_five_commands_are_answered_over_the_bus(house: House) -> None:
    uid = deploy(house)

    guid = house.client.answer(uid, "/write The meeting is at 3pm")["guid"]
    (found,) = house.client.answer(uid, "/search meeting")
    more = house.client.answer(uid, "/append bring the slides")
    read = house.client.answer(uid, "/read")
    deleted = house.client.answer(uid, f"/delete {guid}")

    assert (found["guid"], found["content"], found["source"]) == (
        guid,
        "The meeting is at 3pm",
        "memory_write",
    )
    assert more.keys() == {"guid", "created"}
    assert [record["content"] for record in read] == ["The meeting is at 3pm", "bring the slides"]
    assert deleted == {"deleted": 1}
    assert house.contents(uid) == ["bring the slides"]


def test_every_hop_has_its_own_sender_and_id(house: House) -> None:
    uid = deploy(house)

    hops = house.client.ask(uid, "/write tea")

    assert [hop.sender for hop in hops] == ["User", "dispatch_write", "memory_write"]
    assert [hop.text for hop in hops[:2]] == ["/write tea", "tea"]
    assert len({hop.mid for hop in hops}) == 3


def test_live_copies_match_the_log_in_order(house: House) -> None:
    uid = deploy(house)

    with Ear(house.client, uid) as ear:
        logged = house.client.ask(uid, "/write tea")
        heard = [
            orjson.loads(payload)
            for payload in ear.until(lambda payload: b"memory_write" in payload)
        ]

    assert [copy.pop("mid") for copy in heard] == [said.mid for said in logged]
    assert heard == [said.envelope for said in logged]


def test_an_answer_has_id_type_user_and_time_in_ms(
    house: House,
) -> None:
    uid = deploy(house)
    began_ms = time.time() * 1000

    answer = house.client.ask(uid, "/write tea")[-1].envelope

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
def test_agent_from_selects_senders(house: House, agent_from: Any, heard: list[str]) -> None:
    uid = deploy(house, make_agent("plus", "add_1", hears=agent_from, to="sums"))

    for number, sender in enumerate(["keeper", "guest", "third"]):
        house.client.ask(uid, str(number), sender=sender)

    sums = [said.text for said in house.client.log(uid, "sums")]
    assert sums == [str(["keeper", "guest", "third"].index(sender) + 1) for sender in heard]


def test_agent_from_matches_names_and_not_aliases(house: House) -> None:
    first = make_agent("first", "add_1", hears="User")
    uid = deploy(
        house,
        first,
        make_agent("by_name", "add_1", hears="first"),
        make_agent("by_alias", "add_1", hears="first_"),
    )

    hops = house.client.ask(uid, "1")

    assert [(hop.sender, hop.text) for hop in hops] == [
        ("User", "1"),
        ("first", "2"),
        ("by_name", "3"),
    ]


def test_agents_receive_a_message_in_the_order_of_the_bundle(house: House) -> None:
    agents = [
        make_agent(f"plus{amount}", "add_1", {"amount": amount}, hears="User")
        for amount in (5, 3, 9)
    ]
    uid = deploy(house, *agents)

    hops = house.client.ask(uid, "1")

    assert [hop.text for hop in hops] == ["1", "6", "4", "10"]


def test_a_message_goes_from_swarm_to_swarm(house: House) -> None:
    relay = make_relay("write", r"^/write\s+(.*)", to="inner")
    uid = deploy(
        house, relay, make_memory("write") | {"agent_rec_swarm": "inner", "agent_send_swarm": "out"}
    )

    said = house.client.ask(uid, "/write tea")

    (relayed,), (answer,) = house.client.log(uid, "inner"), house.client.log(uid, "out")
    assert [hop.text for hop in said] == ["/write tea"]
    assert (relayed.sender, relayed.text, answer.sender) == (
        "dispatch_write",
        "tea",
        "memory_write",
    )
    assert {relayed.input, answer.input} == {said[0].input}


def test_an_agent_that_does_not_publish_still_runs(house: House) -> None:
    uid = deploy(house, make_memory("write", hears="User") | {"wf_publish_results": False})

    said = house.client.ask(uid, "tea")

    assert [hop.text for hop in said] == ["tea"]
    assert house.contents(uid) == ["tea"]


def test_an_unmatched_message_is_only_logged(house: House) -> None:
    uid = deploy(house)

    said = house.client.ask(uid, "hello there")

    assert [hop.text for hop in said] == ["hello there"]
    assert not house.dead_letters(uid)


def test_a_relay_answers_only_what_it_matches_and_a_filter_passes_the_rest(house: House) -> None:
    talk = make_agent(
        "talk", "regex_filter", {"pattern": "^/", "invert": True}, hears="User", to="talk"
    )
    uid = deploy(house, make_relay("write", r"^/write\s+(.*)"), talk)

    for text in ("/write tea", "hello", "/other", "write tea"):
        house.client.ask(uid, text)

    assert [said.text for said in house.client.log(uid) if said.sender == "dispatch_write"] == [
        "tea"
    ]
    assert [said.text for said in house.client.log(uid, "talk")] == ["hello", "write tea"]


def test_a_filter_changes_only_the_sender(house: House) -> None:
    uid = deploy(house, make_agent("all", "regex_filter", {"pattern": ""}, hears="User", to="out"))
    parts = [
        {"text": "tea", "username": "Ann", "timestamp": 1_700_000_000, "type": "text/x"},
        {"text": "more"},
    ]

    ident = house.client.enter_raw(uid, make_envelope("", args=parts))
    house.client.await_done(uid, ident)

    (passed,) = house.client.log(uid, "out")
    assert (passed.sender, passed.envelope["id"], passed.envelope["args"][0]) == (
        "all",
        "me",
        parts[0],
    )
    assert [part["text"] for part in passed.envelope["args"]] == ["tea", "more"]


def test_a_filter_keeps_unknown_keys(house: House) -> None:
    uid = deploy(house, make_agent("all", "regex_filter", {"pattern": ""}, hears="User", to="out"))

    ident = house.client.enter_raw(
        uid, make_envelope("", args=[{"text": "tea", "colour": "green"}])
    )
    house.client.await_done(uid, ident)

    (passed,) = house.client.log(uid, "out")
    assert passed.envelope["args"][0]["colour"] == "green"


def test_messages_run_first_in_first_out(house: House) -> None:
    uid = deploy(house)

    house.client.enter_together(uid, [f"/write {number}" for number in range(600)])
    house.client.await_quiet(uid)

    assert house.contents(uid) == [str(number) for number in range(600)]
    relayed = [said.text for said in house.client.log(uid) if said.sender == "dispatch_write"]
    assert relayed == [str(number) for number in range(600)]


def test_a_read_sees_exactly_the_writes_before_it_in_the_batch(house: House) -> None:
    uid = deploy(house)

    idents = house.client.enter_together(
        uid, ["/write one", "/read", "/write two", "/search two", "/read"]
    )
    house.client.await_quiet(uid)

    answers = {said.input: said.text for said in house.client.log(uid)}
    first, found, second = [orjson.loads(answers[idents[at]]) for at in (1, 3, 4)]
    assert [record["content"] for record in first] == ["one"]
    assert [record["content"] for record in found] == ["two"]
    assert [record["content"] for record in second] == ["one", "two"]


def test_the_text_of_a_message_is_kept_unchanged(house: House) -> None:
    uid = deploy(
        house,
        make_memory("write", hears="User"),
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
        house.client.ask(uid, text)

    assert [
        record["content"] for record in house.client.answer(uid, "/read")[: len(texts)]
    ] == texts
