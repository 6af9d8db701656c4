"""The statements about agents of the specification, on a real worker with a stub of the model."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.agents import Asked, with_prompt
from tests.support.bundles import make_agent
from tests.support.model_server import Json, ModelServer, calls, fault
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "assistant.json"
IDENTIFY = make_agent("who", "identify_user", {"forward": True}, senders="User", to="known")
# Checks a bundle with an agent and loads its block, as a worker does before the first turn.
LOAD = """
import sys
import memrelay.cli.main, memrelay.cli.commands.worker
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
Plan(check(open(sys.argv[1], "rb").read()).accepted())
print(*sys.modules)
"""


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        system.start_worker(outgoing={"open_for": ["models"]})
        yield system
        assert system.workers[-1].stop() == 0


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


def identified(system: TestSystem, model: ModelServer, **args: Any) -> Asked:
    """Return an agent behind `identify_user`."""
    return Asked(system, model, IDENTIFY, senders="who", on="known", **args)


def test_9_each_request_has_the_prompt_twice_and_the_conversation(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, system_prompt="P", conversation_memory=True)

    asked.ask("one")
    asked.ask("two")

    said = [("user", "one"), ("assistant", "you said: one"), ("user", "two")]
    assert model.sent[1] == with_prompt("P", *said)


def test_9_without_conversation_memory_each_message_stands_alone(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, system_prompt="P")

    asked.ask("one")
    asked.ask("two")

    assert model.sent == [with_prompt("P", ("user", "one")), with_prompt("P", ("user", "two"))]


@pytest.mark.parametrize("make", [Asked, identified])
def test_11_users_share_no_conversation(system: TestSystem, model: ModelServer, make: Any) -> None:
    asked = make(system, model, conversation_memory=True)

    for text in ("cat", "dog"):
        for name in ("Ada", "Bob"):
            asked.ask(f"{name} has a {text}", username=name)

    asked_by = [orjson.dumps(request["messages"]).decode() for request in model.requests]
    assert len(asked_by) == 4
    assert [("Ada" in text, "Bob" in text) for text in asked_by] == [
        (True, False),
        (False, True),
    ] * 2
    assert "cat" in asked_by[2] and "cat" in asked_by[3]


def test_13_the_history_shows_what_was_said(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, system_prompt="P", conversation_memory=True)
    for text in ("one", "two", "three"):
        asked.ask(text)

    page = asked.operate("conversations.history", {"user": "User", "limit": 2})

    assert [(one["role"], one["text"]) for one in page["messages"]] == [
        ("user", "three"),
        ("assistant", "you said: three"),
    ]
    assert all(one["timestamp"] for one in page["messages"])
    assert (page["has_more"], page["thread_id"]) == (True, f"chat:User:{asked.uid}")
    asked.operate("conversations.clear", {"user": "User"})
    assert asked.operate("conversations.history", {"user": "User"})["messages"] == []


def test_14_retrieved_knowledge_follows_the_prompt_and_is_not_stored(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(
        system,
        model,
        system_prompt="P",
        conversation_memory=True,
        knowledge_config={"memory_tags": ["customer*"]},
    )
    named = {"name": "Customer Preferences", "tags": ["customer"]}
    memory = asked.operate("memories.create", named)
    text = "Customer prefers email over phone calls"
    asked.operate("entries.create", {"memory_id": memory["id"], "content": text})

    asked.ask("How should I contact the customer?")
    asked.ask("And the weather?")

    first, second, *_ = model.sent[0]
    assert first == ("system", "P")
    assert second[0] == "system"
    assert f"\n[Memory: Customer Preferences] {text}\n" in second[1]
    conversation = [sent for role, sent in model.sent[1] if role != "system"]
    history = asked.operate("conversations.history", {"user": "User"})
    assert text not in orjson.dumps([conversation, history]).decode()


def test_15_the_model_writes_once_to_the_memory_of_the_bundle(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model)
    memory = asked.operate("memories.create", {"name": "Notes"})["id"]
    asked.deploy_again(knowledge_config={"write_memory_id": memory})
    model.script.append(calls(("write_memory", {"content": "Ada likes tea", "memory_id": "mem_x"})))
    model.reply = lambda request: _hold_once(model, "Noted.")
    ident = asked.send("remember that")
    wait_for(lambda: len(model.requests) == 2, "the tool has run")
    system.workers[-1].kill()
    model.hold.set()
    system.start_worker(outgoing={"open_for": ["models"]})

    assert asked.answer(ident) == "Noted."

    (tool,) = model.requests[0]["tools"]
    assert tool["function"]["name"] == "write_memory"
    assert set(tool["function"]["parameters"]["properties"]) == {"content"}
    assert "<knowledge>" not in orjson.dumps(model.requests).decode()
    (entry,) = asked.operate("entries.list", {"memory_id": memory})["items"]
    assert (entry["content"], entry["source"]) == ("Ada likes tea", "agent")
    result = orjson.loads(model.sent[-1][-1][1])
    assert result == {"action": "created", "entryId": entry["id"]}


def _hold_once(model: ModelServer, text: str) -> str:
    """Answer when the test goes on."""
    if len(model.requests) == 2:
        model.hold.clear()
        model.hold.wait(30)
    return text


def test_fault_1_users_without_identity_share_no_thread(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, conversation_memory=True)
    for name in ("", "Ada"):
        asked.ask(f"I am {name or 'nobody'}", username=name)

    threads = {thread for (thread,) in system.rows(asked.uid, "SELECT thread FROM checkpoints")}

    # A message without a username is spoken by its sender.
    assert threads == {f"chat:User:{asked.uid}", f"chat:Ada:{asked.uid}"}


def test_fault_8_agents_share_no_thread(system: TestSystem, model: ModelServer) -> None:
    other = ai_agent(model, "other")
    asked = Asked(system, model, other, conversation_memory=True)
    model.reply = lambda request: f"{request['model']} has answered"
    for text in ("one", "two"):
        asked.ask(text)
    wait_for(lambda: len(model.requests) == 4, "both have answered")

    for request in model.requests:
        answers = [one["content"] for one in request["messages"] if one["role"] == "assistant"]
        assert answers in ([], [f"{request['model']} has answered"])


def test_fault_9_a_failure_keeps_the_thread(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, conversation_memory=True)
    asked.ask("one")
    model.script.append(fault(400, "no"))
    asked.fault("two")

    asked.ask("three")

    assert model.sent[-1] == [
        ("user", "one"),
        ("assistant", "you said: one"),
        ("user", "two"),
        ("user", "three"),
    ]


def test_fault_10_a_repeated_turn_adds_its_messages_once(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, conversation_memory=True)
    asked.ask("one")
    model.hold.clear()
    ident = asked.send("two")
    wait_for(lambda: len(model.requests) == 2, "the request is open")
    system.workers[-1].kill()
    model.hold.set()
    system.start_worker(outgoing={"open_for": ["models"]})
    asked.answer(ident)

    asked.ask("three")

    assert [text for _, text in model.sent[-1]] == [
        "one",
        "you said: one",
        "two",
        "you said: two",
        "three",
    ]


def test_fault_11_old_checkpoints_are_deleted(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, conversation_memory=True, keep_checkpoints=2)
    for number in range(4):
        asked.ask(f"{number}")

    assert len(system.rows(asked.uid, "SELECT id FROM checkpoints")) == 2
    assert system.rows(asked.uid, "SELECT task FROM checkpoint_writes") == []


def test_the_context_of_an_identified_user_is_in_the_prompt(
    system: TestSystem, model: ModelServer
) -> None:
    asked = identified(system, model, system_prompt="User: {{ user_context }}")
    asked.operate(
        "facts.set", {"key": "drink", "value": "tea", "scope": "user", "user_id": "chat:Ada"}
    )

    asked.ask("hello", username="Ada")

    prompt = model.sent[0][0][1]
    context = orjson.loads(prompt.partition("<user_context>\n")[2].partition("\n</user")[0])
    assert (context["user_id"], context["display_name"]) == ("chat:Ada", "Ada")
    assert [(fact["key"], fact["value"]) for fact in context["facts"]] == [("drink", "tea")]


def test_the_sample_answers_and_remembers(system: TestSystem, model: ModelServer) -> None:
    bundle = orjson.loads(SAMPLE.read_bytes()) | {"pipeline_uid": "assistant"}
    for agent in bundle["agents"]:
        if agent["agent_alias"] == "assistant":
            agent["wf_webhook_args"]["url"] = model.url
    model.script.append(calls(("remember", {"key": "color", "value": "blue"})))
    system.deploy(bundle)

    system.client.enter("assistant", "my color is blue")

    def find() -> list[str]:
        return [said.text for said in system.client.log("assistant") if said.sender == "Assistant"]

    assert wait_for(find, "it answers") == ["you said: Remembered: color = blue (created)"]


def test_a_worker_without_agents_loads_neither_langgraph_nor_langchain() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOAD, str(SAMPLE)], capture_output=True, text=True, check=True
    )

    heavy = ("langgraph.", "langchain_core", "langsmith", "aiohttp", "memrelay.agents.")
    assert [name for name in ran.stdout.split() if name.startswith(heavy)] == []


def ai_agent(model: ModelServer, name: str) -> Json:
    """Return an agent of the class ai_agent with a conversation, whose answers go elsewhere."""
    return {
        "agent_class": "ai_agent",
        "agent_alias": name,
        "agent_name": name,
        "agent_from": "User",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": f"{name}s",
        "ai_url": model.url,
        "ai_model": name,
        "ai_use_context": True,
    }
