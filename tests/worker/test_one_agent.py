"""Entries with the field `agent`: a webhook's for one agent, or a chat message of its user."""

import orjson
import pytest

from tests.support.bundles import (
    Json,
    make_agent,
    make_bundle,
    make_commands,
    make_memory,
    make_uid,
)
from tests.support.client import input_of, make_envelope
from tests.support.house import House

CHAT = {
    "agent_class": "chat_agent",
    "agent_alias": "ann",
    "agent_name": "Ann",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_username": "ann",
}


def deploy(house: House, *agents: Json) -> str:
    uid = make_uid()
    house.deploy(make_bundle(uid, *agents))
    return uid


def hand(house: House, uid: str, alias: str, data: bytes, **fields: str) -> str:
    """Append an envelope for one agent, wait until it has run, and return the entry's ID."""
    ident: bytes = house.client.redis.xadd(input_of(uid), {"agent": alias, "data": data, **fields})
    house.client.await_done(uid, ident.decode())
    return ident.decode()


def test_only_the_named_agent_receives_the_message(house: House) -> None:
    uid = deploy(
        house, *[make_memory("write", hears="User", alias=alias) for alias in ("one", "other")]
    )

    hand(house, uid, "one_", make_envelope("tea"))

    assert house.contents(uid) == ["tea"]
    assert [said.sender for said in house.client.log(uid)] == ["one"]


@pytest.mark.parametrize("hears", ["nobody", "!User", ["x", "y"]])
def test_the_named_agent_ignores_its_agent_from(house: House, hears: object) -> None:
    uid = deploy(house, make_memory("write", hears=hears) | {"wf_publish_results": False})

    hand(house, uid, "memory_write_", make_envelope("tea"))

    assert house.contents(uid) == ["tea"]


def test_only_the_answer_to_an_agent_entry_is_published(house: House) -> None:
    uid = deploy(house, *make_commands())

    hand(house, uid, "dispatch_write_", make_envelope("/write tea", sender="Mallory"))

    assert [said.sender for said in house.client.log(uid)] == ["dispatch_write", "memory_write"]
    assert house.contents(uid) == ["tea"]


def test_an_agent_without_a_swarm_receives_agent_entries(house: House) -> None:
    uid = deploy(house, make_memory("write") | {"agent_rec_swarm": "", "agent_send_swarm": ""})

    hand(house, uid, "memory_write_", make_envelope("tea"))

    assert house.contents(uid) == ["tea"]


def test_a_chat_agent_publishes_as_its_user(house: House) -> None:
    uid = deploy(
        house,
        CHAT,
        *[
            agent | {"agent_from": "Ann"} if "dispatch" in agent["agent_alias"] else agent
            for agent in make_commands()
        ],
    )

    ident = hand(house, uid, "ann", make_envelope("/write tea", sender="Mallory"))

    first = house.client.log(uid)[0]
    assert (first.sender, first.text, first.input) == ("Ann", "/write tea", ident)
    assert first.envelope["args"] == [
        {
            "username": "ann",
            "text": "/write tea",
            "timestamp": int(ident.split("-")[0]),
            "type": "text/plain",
        }
    ]
    assert house.contents(uid) == ["tea"]


def test_a_chat_message_keeps_its_type(house: House) -> None:
    uid = deploy(house, CHAT)
    data = orjson.dumps({"from": "x", "args": [{"text": '{"a": 1}', "type": "application/json"}]})

    hand(house, uid, "ann", data)

    (said,) = house.client.log(uid)
    assert (said.text, said.envelope["args"][0]["type"]) == ('{"a": 1}', "application/json")


def test_a_producer_id_has_one_effect(house: House) -> None:
    uid = deploy(house, make_memory("write"))

    for _ in range(3):
        hand(house, uid, "memory_write_", make_envelope("tea"), id="msg_1")

    assert house.contents(uid) == ["tea"]


@pytest.mark.parametrize("alias", ["nobody", "viewer", "mute", "off_", "é\n"])
def test_an_entry_for_an_agent_that_takes_nothing_becomes_a_dead_letter(
    house: House, alias: str
) -> None:
    uid = deploy(
        house,
        CHAT | {"agent_class": "viewer_agent", "agent_alias": "viewer"},
        CHAT | {"agent_alias": "mute", "agent_send_swarm": ""},
        make_agent("off", "add_1") | {"wf_call_webhook": False},
    )

    ident = hand(house, uid, alias, make_envelope("tea"))

    letter = house.await_dead_letter(uid, ident)
    assert "that takes messages" in letter.error
    assert orjson.loads(letter.data)["args"][0]["text"] == "tea"


def test_a_malformed_envelope_becomes_a_dead_letter(house: House) -> None:
    uid = deploy(house, make_memory("write"))

    letters = [
        house.await_dead_letter(uid, hand(house, uid, "memory_write_", data))
        for data in (b"", b"tea", b'{"args":{}}')
    ]

    assert all(
        "envelope" in letter.error or "needs the fields" in letter.error for letter in letters
    )


def test_hops_of_agent_entries_count(house: House) -> None:
    uid = deploy(house, make_agent("plus", "add_1"))

    ident = hand(house, uid, "plus_", make_envelope("1"))

    assert "worker.max_hops" in house.await_dead_letter(uid, ident).error


def test_an_entry_with_swarm_and_agent_goes_to_the_agent(house: House) -> None:
    uid = deploy(
        house, *[make_memory("write", hears="User", alias=alias) for alias in ("one", "other")]
    )

    hand(house, uid, "one_", make_envelope("tea"), swarm="chat")

    assert [said.sender for said in house.client.log(uid)] == ["one"]
