"""The model of a bundle: its keys and their values."""

from typing import Any

import pytest

from memrelay.pipelines.check import check
from tests.pipelines.builders import (
    UID,
    faults_of,
    make_block,
    make_bundle,
    make_chat,
    make_memory,
    warnings_of,
)


def test_a_small_bundle_has_no_fault_and_no_warning() -> None:
    assert warnings_of(make_chat(), make_memory(agent_from="User")) == []


@pytest.mark.parametrize("key", ["agent_sned_swarm", "wf_webhok_args", "ai_modell"])
def test_a_misspelled_key_of_an_agent_is_an_error_with_a_suggestion(key: str) -> None:
    (fault,) = faults_of(make_chat(**{key: "x"}))

    assert fault.startswith(f'agents[0].{key}: unknown key "{key}"; did you mean "')


def test_an_unknown_key_with_a_reserved_prefix_is_an_error() -> None:
    assert faults_of(make_chat(wf_zzzzzzzzzzzzz=1)) == [
        'agents[0].wf_zzzzzzzzzzzzz: unknown key "wf_zzzzzzzzzzzzz"'
    ]


def test_a_misspelled_prefix_is_an_error() -> None:
    assert faults_of(make_chat(agnet_from="User")) == [
        'agents[0].agnet_from: unknown key "agnet_from"; did you mean "agent_from"?'
    ]


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("pipeline_nmae", "pipeline_name"),
        ("agnets", "agents"),
        ("display_oder", "display_order"),
        ("swarm", "swarms"),
    ],
)
def test_a_misspelled_key_of_the_bundle_is_an_error_with_a_suggestion(key: str, meant: str) -> None:
    assert faults_of(**{key: []}) == [f'{key}: unknown key "{key}"; did you mean "{meant}"?']


def test_a_misspelled_key_of_a_swarm_is_an_error_with_a_suggestion() -> None:
    assert faults_of(swarms=[{"name": "chat", "visibilty": "private"}]) == [
        'swarms[0].visibilty: unknown key "visibilty"; did you mean "visibility"?'
    ]


def test_keys_of_editors_and_other_programs_are_kept() -> None:
    drawing = {"figure": "Rectangle", "loc": "12 40", "zOrder": 3, "my_notes": {"a": [1]}}

    checked = check(make_bundle(make_chat(**drawing), editor="ours"), uid=UID).accepted()

    assert b'"my_notes":{"a":[1]}' in checked.source
    assert b'"editor":"ours"' in checked.source


def test_the_keys_of_an_exported_bundle_are_accepted() -> None:
    exported = {
        "agent_parent_id": "",
        "agent_display_order": 1,
        "agent_is_controller": False,
        "agent_width": 400,
        "agent_style": "2",
        "ai_url": "http://localhost:11434",
        "wf_diagram_alias": "kilroy.ai.webhooks",
        "wf_interval_secs": 0,
    }

    assert warnings_of(make_chat(**exported), pipeline_id="7") == []


def test_null_is_the_same_as_absent() -> None:
    assert (
        warnings_of(make_chat(agent_from=None, wf_call_webhook=None, agent_desc=None), swarms=None)
        == []
    )


@pytest.mark.parametrize("said", [True, "true", "TRUE", "True"])
def test_true_has_several_notations(said: bool | str) -> None:
    (agent,) = check(make_bundle(make_memory(wf_publish_results=said))).accepted().agents

    assert agent.agent.publishes


@pytest.mark.parametrize("said", [False, "false", "FALSE", "False", None])
def test_false_has_several_notations(said: bool | str | None) -> None:
    (agent,) = check(make_bundle(make_block("add_1", wf_publish_results=said))).accepted().agents

    assert not agent.agent.publishes


@pytest.mark.parametrize("said", ["yes", "", "1", 1, 0, []])
def test_other_notations_of_a_flag_are_errors(said: Any) -> None:
    assert faults_of(make_block("add_1", wf_call_webhook=said)) == [
        "agents[0].wf_call_webhook: must be true or false"
    ]


@pytest.mark.parametrize("agent_from", [5, {"a": 1}, ["a", 5], True])
def test_agent_from_is_a_name_or_names(agent_from: Any) -> None:
    assert faults_of(make_chat(agent_from=agent_from)) == [
        "agents[0].agent_from: must be a name, or a list of names"
    ]


def test_an_interval_is_not_a_flag() -> None:
    assert faults_of(make_memory(wf_interval_secs=True)) == [
        "agents[0].wf_interval_secs: must be a number of seconds"
    ]


def test_an_invalid_key_does_not_hide_others() -> None:
    agent = make_memory(
        agent_rec_swarm=7, wf_interval_secs="soon", wf_webhook_args={"memory_idd": "a/b"}
    )

    assert faults_of(agent, agent, display_order=3)[:3] == [
        "agents[0].agent_rec_swarm: must be a valid string",
        "agents[0].wf_interval_secs: must be a valid number, unable to parse string as a number",
        "agents[0].wf_webhook_args.memory_idd: the block memory_write has no argument "
        '"memory_idd"; did you mean "memory_id"?',
    ]


def test_a_fault_in_a_list_is_reported_at_its_place() -> None:
    assert faults_of(display_order=["user", 5]) == ["display_order[1]: must be a valid string"]


@pytest.mark.parametrize("agents", [{}, "x", 7])
def test_agents_are_a_list(agents: Any) -> None:
    assert faults_of(agents=agents) == ["agents: must be a list of objects"]


def test_agents_are_required() -> None:
    (fault,) = check({"pipeline_name": "x"}).faults

    assert fault.as_line() == "agents: a bundle needs agents; add a list of them"


def test_an_agent_is_an_object() -> None:
    assert faults_of(make_chat(), agents=[make_chat(), 7, None]) == [
        "agents[1]: must be an object",
        "agents[2]: must be an object",
    ]


def test_the_number_of_agents_is_limited() -> None:
    many = [make_chat(agent_alias=f"user{at}") for at in range(1001)]

    assert faults_of(*many) == ["agents: has at most 1000 entries; split it into several pipelines"]
