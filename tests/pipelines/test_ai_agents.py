"""Agents of the class ai_agent: their keys are the arguments of the block `agent`."""

from pathlib import Path
from typing import Any

import pytest

from memrelay.blocks.registry import built_in_blocks
from memrelay.guarded_http.rules import OutgoingRules, SecretBinding
from memrelay.pipelines.agents import make_bundle_key
from memrelay.pipelines.bundle import AgentSpec
from memrelay.pipelines.check import check
from memrelay.pipelines.secret_references import NO_SECRETS, SecretResolver
from tests.pipelines.builders import UID, faults_of, make_bundle

MODEL = {"ai_url": "http://localhost:11434/v1/chat/completions", "ai_model": "llama3"}


def make_ai_agent(**keys: Any) -> dict[str, Any]:
    wiring = {"agent_alias": "bot", "agent_name": "Bot", "agent_rec_swarm": "chat"}
    return {"agent_class": "ai_agent", "agent_send_swarm": "chat"} | wiring | MODEL | keys


def test_an_ai_agent_calls_the_block_agent_with_its_keys() -> None:
    keys = {
        "ai_temperature": 0.1,
        "ai_max_tokens": 4500,
        "ai_system_prompt": "Be kind.",
        "ai_prompt_prefix": "Q: ",
        "ai_use_context": "true",
        "ai_tools": "memory_read, records_search",
    }

    (agent,) = check(make_bundle(make_ai_agent(**keys)), uid=UID).accepted().agents

    args = agent.args.model_dump()
    assert (agent.block.name, agent.calls, agent.agent.publishes) == ("agent", True, True)
    assert args["memory_id"] == agent.args.store == f"instances/{UID}/memories"
    assert (args["url"], args["model"]) == (MODEL["ai_url"], "llama3")
    assert (args["temperature"], args["max_tokens"]) == (0.1, 4500)
    assert (args["system_prompt"], args["prompt_prefix"]) == ("Be kind.", "Q: ")
    assert args["conversation_memory"] is True
    assert args["tools"] == ("recall", "records_search")


def test_a_secret_that_is_not_listed_is_a_fault() -> None:
    bundle = make_bundle(make_ai_agent(ai_api_key="env:KEY"))

    (found,) = check(bundle, uid=UID, secrets=NO_SECRETS).faults

    assert (found.pointer, found.rule) == ("/agents/0", "blocks may not use the secret env:KEY")
    listed = SecretResolver(Path("/"), {}, for_blocks=["env:KEY"])
    assert check(bundle, uid=UID, secrets=listed).faults == ()


@pytest.mark.parametrize(
    ("host", "pipelines", "is_allowed"),
    [("127.0.0.1", (), True), ("other.example", (), False), ("127.0.0.1", ("other",), False)],
)
def test_a_bound_api_key_goes_only_to_its_hosts(
    host: str, pipelines: tuple[str, ...], is_allowed: bool
) -> None:
    bundle = make_bundle(make_ai_agent(ai_api_key="env:KEY", ai_url="http://127.0.0.1:11434/v1"))
    bound = SecretBinding("env:KEY", frozenset({host}), frozenset(pipelines))
    rules = OutgoingRules(secrets=(bound,))

    for listed in ((), ("env:KEY",)):
        secrets = SecretResolver(Path("/"), {}, for_blocks=listed, outgoing=rules)
        faults = check(bundle, uid=UID, secrets=secrets).faults
        assert [one.rule for one in faults] == (
            [] if is_allowed else ["the secret env:KEY may not be sent to 127.0.0.1"]
        )


def test_every_argument_of_the_block_has_a_key() -> None:
    arguments = built_in_blocks()["agent"].args.model_fields
    keys = {name for name in AgentSpec.model_fields if name.startswith("ai_")}

    assert keys == {make_bundle_key(argument) for argument in arguments}


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ({"ai_url": None}, "agents[0].ai_url: is missing"),
        ({"ai_url": "localhost:11434"}, "agents[0].ai_url: must be the URL of an OpenAI-comp"),
        ({"ai_use_context": "maybe"}, "agents[0].ai_use_context: must be true or false"),
        ({"ai_tools": ["reacll"]}, "agents[0].ai_tools"),
        ({"ai_api_key": "sk-1"}, "agents[0].ai_api_key: must be env:NAME or file:NAME"),
        ({"ai_modle": "x"}, 'agents[0].ai_modle: unknown key "ai_modle"; did you mean "ai_model"?'),
    ],
)
def test_a_fault_names_the_key(keys: dict[str, Any], fault: str) -> None:
    (found,) = faults_of(make_ai_agent(**keys))

    assert found.startswith(fault)
