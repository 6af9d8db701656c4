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
from tests.support.system import TestSystem

CHAT = {
    "agent_class": "chat_agent",
    "agent_alias": "ann",
    "agent_name": "Ann",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_username": "ann",
}


def deploy(system: TestSystem, *agents: Json) -> str:
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
    return uid


def hand(system: TestSystem, uid: str, alias: str, data: bytes, **fields: str) -> str:
    """Append an envelope for one agent, wait until it has run, and return the entry's ID."""
    ident: bytes = system.client.redis.xadd(input_of(uid), {"agent": alias, "data": data, **fields})
    system.client.await_done(uid, ident.decode())
    return ident.decode()


def test_only_the_named_agent_receives_the_message(system: TestSystem) -> None:
    uid = deploy(
        system, *[make_memory("write", senders="User", alias=alias) for alias in ("one", "other")]
    )

    hand(system, uid, "one_", make_envelope("tea"))

    assert system.contents(uid) == ["tea"]
    assert [said.sender for said in system.client.log(uid)] == ["one"]


@pytest.mark.parametrize("senders", ["nobody", "!User", ["x", "y"]])
def test_the_named_agent_ignores_its_agent_from(system: TestSystem, senders: object) -> None:
    uid = deploy(system, make_memory("write", senders=senders) | {"wf_publish_results": False})

    hand(system, uid, "memory_write_", make_envelope("tea"))

    assert system.contents(uid) == ["tea"]


def test_only_the_answer_to_an_agent_entry_is_published(system: TestSystem) -> None:
    uid = deploy(system, *make_commands())

    hand(system, uid, "dispatch_write_", make_envelope("/write tea", sender="Mallory"))

    assert [said.sender for said in system.client.log(uid)] == ["dispatch_write", "memory_write"]
    assert system.contents(uid) == ["tea"]


def test_an_agent_without_a_swarm_receives_agent_entries(system: TestSystem) -> None:
    uid = deploy(system, make_memory("write") | {"agent_rec_swarm": "", "agent_send_swarm": ""})

    hand(system, uid, "memory_write_", make_envelope("tea"))

    assert system.contents(uid) == ["tea"]


def test_a_chat_agent_publishes_as_its_user(system: TestSystem) -> None:
    uid = deploy(
        system,
        CHAT,
        *[
            agent | {"agent_from": "Ann"} if "dispatch" in agent["agent_alias"] else agent
            for agent in make_commands()
        ],
    )

    ident = hand(system, uid, "ann", make_envelope("/write tea", sender="Mallory"))

    first = system.client.log(uid)[0]
    assert (first.sender, first.text, first.input) == ("Ann", "/write tea", ident)
    assert first.envelope["args"] == [
        {
            "username": "ann",
            "text": "/write tea",
            "timestamp": int(ident.split("-")[0]),
            "type": "text/plain",
        }
    ]
    assert system.contents(uid) == ["tea"]


def test_a_chat_message_keeps_its_type(system: TestSystem) -> None:
    uid = deploy(system, CHAT)
    data = orjson.dumps({"from": "x", "args": [{"text": '{"a": 1}', "type": "application/json"}]})

    hand(system, uid, "ann", data)

    (said,) = system.client.log(uid)
    assert (said.text, said.envelope["args"][0]["type"]) == ('{"a": 1}', "application/json")


def test_a_producer_id_has_one_effect(system: TestSystem) -> None:
    uid = deploy(system, make_memory("write"))

    for _ in range(3):
        hand(system, uid, "memory_write_", make_envelope("tea"), id="msg_1")

    assert system.contents(uid) == ["tea"]


@pytest.mark.parametrize("alias", ["nobody", "viewer", "mute", "off_", "é\n"])
def test_an_entry_for_an_agent_that_takes_nothing_becomes_a_dead_letter(
    system: TestSystem, alias: str
) -> None:
    uid = deploy(
        system,
        CHAT | {"agent_class": "viewer_agent", "agent_alias": "viewer"},
        CHAT | {"agent_alias": "mute", "agent_send_swarm": ""},
        make_agent("off", "add_1") | {"wf_call_webhook": False},
    )

    ident = hand(system, uid, alias, make_envelope("tea"))

    letter = system.await_dead_letter(uid, ident)
    assert "that takes messages" in letter.error
    assert orjson.loads(letter.data)["args"][0]["text"] == "tea"


def test_a_malformed_envelope_becomes_a_dead_letter(system: TestSystem) -> None:
    uid = deploy(system, make_memory("write"))

    letters = [
        system.await_dead_letter(uid, hand(system, uid, "memory_write_", data))
        for data in (b"", b"tea", b'{"args":{}}')
    ]

    assert all(
        "envelope" in letter.error or "needs the fields" in letter.error for letter in letters
    )


def test_hops_of_agent_entries_count(system: TestSystem) -> None:
    uid = deploy(system, make_agent("plus", "add_1"))

    ident = hand(system, uid, "plus_", make_envelope("1"))

    assert "worker.max_hops" in system.await_dead_letter(uid, ident).error


def test_an_entry_with_swarm_and_agent_goes_to_the_agent(system: TestSystem) -> None:
    uid = deploy(
        system, *[make_memory("write", senders="User", alias=alias) for alias in ("one", "other")]
    )

    hand(system, uid, "one_", make_envelope("tea"), swarm="chat")

    assert [said.sender for said in system.client.log(uid)] == ["one"]
