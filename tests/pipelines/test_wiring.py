"""The connections between agents: aliases, swarms, senders."""

from typing import Any

import pytest

from memrelay.pipelines.check import check
from tests.pipelines.builders import (
    UID,
    faults_of,
    make_bundle,
    make_chat,
    make_memory,
    make_relay,
    warnings_of,
)

NO_WIRE_NAME = "has 1 to 128 characters, no control characters and no braces"


def test_no_two_agents_have_the_same_alias() -> None:
    assert faults_of(make_chat(), make_memory(agent_alias="user")) == [
        'agents[1].agent_alias: agents[0] already has the alias "user"; choose another'
    ]


@pytest.mark.parametrize("alias", ["", None])
def test_an_agent_needs_an_alias(alias: str | None) -> None:
    assert faults_of(make_chat(agent_alias=alias)) == [
        "agents[0].agent_alias: an agent needs an alias; set agent_alias"
    ]


def test_agents_without_an_alias_do_not_share_one() -> None:
    assert len(faults_of(make_chat(agent_alias=""), make_memory(agent_alias=""))) == 2


@pytest.mark.parametrize("name", ["a{b}", "two\nlines", "x" * 129])
def test_invalid_names_of_swarms_and_aliases_are_errors(name: str) -> None:
    chat = make_chat(agent_alias=name, agent_rec_swarm=name, agent_send_swarm=name)

    assert faults_of(chat, swarms=[{"name": name}]) == [
        f"agents[0].agent_alias: an alias {NO_WIRE_NAME}",
        f"agents[0].agent_rec_swarm: a swarm's name {NO_WIRE_NAME}",
        f"agents[0].agent_send_swarm: a swarm's name {NO_WIRE_NAME}",
        f"swarms[0].name: a swarm's name {NO_WIRE_NAME}",
    ]


def test_a_declared_swarm_needs_a_name() -> None:
    assert faults_of(swarms=[{}]) == [f"swarms[0].name: a swarm's name {NO_WIRE_NAME}"]


def test_a_swarm_that_is_declared_twice_is_an_error() -> None:
    assert faults_of(swarms=[{"name": "chat"}, {"name": "chat"}]) == [
        'swarms[1].name: the swarm "chat" is declared twice; remove one of them'
    ]


@pytest.mark.parametrize("visibility", ["private", "public"])
def test_durable_swarms_are_accepted(visibility: str) -> None:
    assert (
        warnings_of(swarms=[{"name": "chat", "class": "durable", "visibility": visibility}]) == []
    )


def test_ephemeral_swarms_are_refused_with_the_reason() -> None:
    assert faults_of(swarms=[{"name": "chat", "class": "ephemeral"}]) == [
        'swarms[0].class: this version supports only durable swarms; set "durable"'
    ]


def test_an_unknown_class_of_swarm_is_an_error() -> None:
    assert faults_of(swarms=[{"name": "chat", "class": "quick"}]) == [
        "swarms[0].class: must be 'durable' or 'ephemeral'"
    ]


def test_an_unknown_sender_is_a_warning_with_a_suggestion() -> None:
    assert warnings_of(make_relay(), make_memory(agent_from="dispatch_wirte")) == [
        'agents[1].agent_from: no agent publishes as "dispatch_wirte"; '
        'did you mean "dispatch_write"?'
    ]


def test_an_unknown_excluded_sender_is_a_warning() -> None:
    assert warnings_of(
        make_relay(), make_memory(agent_from=["!dispatch_write", "!dispatch_wirte"])
    ) == [
        'agents[1].agent_from[1]: no agent publishes as "dispatch_wirte"; '
        'did you mean "dispatch_write"?'
    ]


def test_a_sender_on_a_public_swarm_may_be_in_another_pipeline() -> None:
    public = [{"name": "news", "visibility": "public"}]

    assert (
        warnings_of(make_memory(agent_rec_swarm="news", agent_from="reporter"), swarms=public) == []
    )


def test_a_public_swarm_with_a_misspelled_name_is_a_warning() -> None:
    assert warnings_of(
        make_chat(), swarms=[{"name": "Chat", "visibility": "public"}, {"name": "elsewhere"}]
    ) == ['swarms[0].name: no agent is on the swarm "Chat"; did you mean "chat"?']
    assert warnings_of(make_chat(), swarms=[{"name": "chat"}, {"name": "chats"}]) == []


def test_a_checked_bundle_has_all_public_swarms_even_without_agents() -> None:
    public = [{"name": name, "visibility": "public"} for name in ("chat", "news")]
    bundle = check(
        make_bundle(make_chat(), make_memory(agent_rec_swarm="notes"), swarms=public), uid=UID
    ).accepted()

    assert (bundle.swarms, bundle.public) == (("chat", "notes", "news"), ("chat", "news"))
    assert [bundle.swarm_owner(swarm) for swarm in bundle.swarms] == ["public", UID, "public"]


def test_an_alias_in_place_of_a_name_is_explained() -> None:
    assert warnings_of(make_relay(), make_memory(agent_from="relay")) == [
        'agents[1].agent_from: no agent publishes as "relay"; this is an alias; '
        'its agent publishes as "dispatch_write"'
    ]


def test_an_agent_that_does_not_publish_is_not_a_known_sender() -> None:
    assert warnings_of(
        make_relay(wf_publish_results=False), make_memory(agent_from="dispatch_write")
    ) == ['agents[1].agent_from: no agent publishes as "dispatch_write"']


@pytest.mark.parametrize("agent_from", ["", "*", ["*"], [], "User", "!User", ["!User"]])
def test_all_senders_and_publishing_agents_are_known_senders(agent_from: Any) -> None:
    assert warnings_of(make_chat(), make_memory(agent_from=agent_from)) == []


def test_an_exclusion_next_to_plain_names_is_a_warning() -> None:
    assert warnings_of(make_chat(), make_relay(agent_from=["User", "!dispatch_write"])) == [
        "agents[1].agent_from: a `!name` next to plain names has no effect; remove it"
    ]


@pytest.mark.parametrize(
    ("agent_from", "accepts"),
    [("", ()), ("*", ()), ("User", ("User",)), (["!a", "!b"], ("!a", "!b"))],
)
def test_a_checked_agent_has_its_accepted_senders(
    agent_from: Any, accepts: tuple[str, ...]
) -> None:
    (agent,) = check(make_bundle(make_chat(agent_from=agent_from)), uid=UID).accepted().agents

    assert agent.accepts == accepts


def test_an_unknown_alias_in_the_display_order_is_a_warning() -> None:
    assert warnings_of(make_chat(), display_order=["user", "usr"]) == [
        'display_order[1]: no agent has the alias "usr"; did you mean "user"?'
    ]


@pytest.mark.parametrize(("accepted", "warnings"), [("", 1), ("User", 0), ("!Bot", 0)])
def test_an_agent_that_answers_itself_is_a_warning(accepted: str, warnings: int) -> None:
    bot = {
        "agent_class": "ai_agent",
        "agent_alias": "bot",
        "agent_name": "Bot",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": accepted,
        "ai_url": "http://127.0.0.1:1/v1",
        "ai_model": "m",
    }

    found = [one for one in warnings_of(make_chat(), bot) if "its own answers" in one]

    assert len(found) == warnings
