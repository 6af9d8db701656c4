"""The sample memory_test.json: the five commands of the seed."""

from pathlib import Path

import pytest

from memrelay.blocks.contract import Selector
from memrelay.pipelines.bundle import accepts
from memrelay.pipelines.check import CheckedAgent, CheckedBundle, check

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
COMMANDS = {
    "write": "/write tea\nwith milk",
    "read": "/read",
    "search": "/search tea",
    "delete": "/delete 3f8a2c1d",
    "append": "/append more\ntea",
}


def sample() -> CheckedBundle:
    return check(SAMPLE.read_bytes()).accepted()


def hearers(text: str, sender: str, swarm: str = "chat") -> list[CheckedAgent]:
    agents = [agent for agent in sample().agents if agent.calls and agent.rec_swarm == swarm]
    return [
        agent
        for agent in agents
        if accepts(agent.accepts, sender) and passes(agent.args.selector, text)
    ]


def passes(selector: Selector | None, text: str) -> bool:
    return selector is None or (selector.pattern.capture(text, 0) is not None) != selector.invert


def test_the_sample_has_no_faults_no_warnings_and_no_uid() -> None:
    checked = check(SAMPLE.read_bytes())

    assert (checked.faults, checked.warnings) == ((), ())
    assert b'pipeline_uid"' not in SAMPLE.read_bytes()


def test_the_sample_is_accepted_again_as_it_was_deployed() -> None:
    bundle = sample()

    assert check(bundle.source, uid=bundle.uid).accepted() == bundle


@pytest.mark.parametrize("sender", ["User", "somebody outside"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_reaches_only_its_relay_and_then_its_block(command: str, sender: str) -> None:
    (relay,) = hearers(COMMANDS[command], sender)
    (block,) = hearers("anything", relay.agent.name)

    assert (relay.agent.name, block.block.name) == (f"dispatch_{command}", f"memory_{command}")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_inside_a_command_is_text(command: str) -> None:
    inner = COMMANDS[command]

    assert [agent.agent.name for agent in hearers(inner, "dispatch_write")] == ["memory_write"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_block_receives_the_result_of_a_memory_block(command: str) -> None:
    assert hearers("/write x", f"memory_{command}") == []
    assert hearers("no command", f"memory_{command}") == []


def test_text_without_a_command_goes_to_talk() -> None:
    (passing,) = hearers("good morning", "User")

    assert passing.send_swarm == "talk"
    assert hearers("good morning", "no_command", "talk") == []


@pytest.mark.parametrize("text", ["/write", "/write ", "/wirte tea", "/delete", "/", "/readall"])
def test_an_incomplete_or_unknown_command_gets_help(text: str) -> None:
    listening = [agent.agent.name for agent in hearers(text, "User")]

    assert listening == (["dispatch_write"] if text == "/write " else ["help"])
    assert hearers("Unknown or incomplete command.", "help") == []


def test_all_memory_blocks_share_the_store_of_the_pipeline() -> None:
    bundle = sample()

    assert {agent.args.store for agent in bundle.agents if agent.args.store} == {
        f"instances/{bundle.uid}/memories"
    }
