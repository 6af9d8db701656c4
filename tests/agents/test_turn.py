"""Turns of an agent on a worker: conversations, tools and faults."""

import functools
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.support.agents import Asked, with_prompt
from tests.support.calls import call
from tests.support.client import make_envelope
from tests.support.model_server import ModelServer, calls, fault
from tests.support.system import TestSystem

TURN_ORIGINS = (
    "SELECT group_concat(DISTINCT kind), profile, agent, model FROM records "
    "JOIN origins ON origins.id = records.origin GROUP BY profile, agent, model ORDER BY profile"
)
CHECKPOINTS = "SELECT thread FROM checkpoints"


@pytest.fixture(scope="module")
def system() -> Iterator[TestSystem]:
    with TestSystem() as system:
        bound = [("env:BOUND", ["127.0.0.1"]), ("env:ELSEWHERE", ["api.example.com"])]
        worker = system.start_worker(
            outgoing={"open_for": ["models"], "secrets": bound},
            secrets=["env:ELSEWHERE"],
            environment={"BOUND": "sk-bound-7f3a", "ELSEWHERE": "sk-other-91cc"},
        )
        yield system
        assert worker.stop() == 0


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


def test_a_changed_prompt_replaces_the_earlier_one(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, system_prompt="P", conversation_memory=True)
    asked.ask("one")
    asked.deploy_again(system_prompt="Q")
    asked.ask("two")
    asked.deploy_again(system_prompt="")
    asked.ask("three")

    said = [("user", "one"), ("assistant", "you said: one"), ("user", "two")]
    assert model.sent[1] == with_prompt("Q", *said)
    assert model.sent[2] == [*said, ("assistant", "you said: two"), ("user", "three")]


def test_a_turn_leaves_one_checkpoint_and_old_ones_are_pruned(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, conversation_memory=True, keep_checkpoints=3)
    counts = []
    for number in range(5):
        asked.ask(f"{number}")
        counts.append(len(system.rows(asked.uid, CHECKPOINTS)))

    assert counts == [1, 2, 3, 3, 3]
    assert {thread for (thread,) in system.rows(asked.uid, CHECKPOINTS)} == {
        f"chat:User:{asked.uid}"
    }
    assert system.rows(asked.uid, "SELECT * FROM checkpoint_writes") == []


def test_turns_share_a_connection_to_the_model(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model)
    asked.ask("one")
    asked.ask("two")

    assert len(model.requests) == 2
    assert len(set(model.clients)) == 1


def test_the_window_limits_the_conversation(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, conversation_memory=True, context_window=1_000, max_tokens=100)
    for letter in "abcdef":
        asked.ask(letter * 400)

    assert [text[0] for _, text in model.sent[-1]] == ["e", "y", "f"]


def test_the_prefix_precedes_the_text(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, prompt_prefix="Q: ")

    assert asked.ask("one") == "you said: Q: one"


def test_unknown_tools_and_invalid_arguments_are_results(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["records_search"])
    model.script.extend(
        [
            calls(("shell", {}), ("records_search", "{"), ("records_search", {"query": 5})),
            "Sorry.",
        ]
    )

    assert asked.ask("run it") == "Sorry."

    results = [one for one in model.requests[1]["messages"] if one["role"] == "tool"]
    assert [one["tool_call_id"] for one in results] == ["call_0", "call_1", "call_2"]
    assert [orjson.loads(one["content"])["error"] for one in results] == [
        "there is no tool 'shell'; tools are records_search",
        "the arguments are no JSON object",
        "query: Input should be a valid string",
    ]


def test_all_that_a_turn_writes_has_one_origin(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools=["remember"])
    for key in "ab":
        remember_in(asked, key=key, value="yes")

    origins = system.rows(asked.uid, TURN_ORIGINS)

    assert len(origins) == 2
    for _, profile, agent, name in origins:
        assert profile.startswith("turn:") and (agent, name) == ("bot_", "stub")
    kinds = {"memory.episode", "memory.fact", "memory.step"}
    assert [set(found.split(",")) for found, *_ in origins] == [kinds, kinds]


def test_what_a_turn_writes_has_the_key_of_the_message(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["remember"])
    model.script.extend([calls(("remember", {"key": "k", "value": "v"})), "Done."])
    envelope = make_envelope("remember it")
    via = '["webhook:github", "verified", "k1"]'
    asked.answer(system.client.enter_raw(asked.uid, envelope, via=via))

    found = system.rows(
        asked.uid,
        "SELECT DISTINCT verdict, origins.key FROM records "
        "JOIN origins ON origins.id = records.origin",
    )
    assert found == [("verified", "k1")]


def test_the_origin_of_a_fact_leads_to_the_message_and_what_the_model_had_read(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["remember", "records_search"])
    said = [("records_search", {"query": "tea"}), ("remember", {"key": "k", "value": "v"})]
    model.script.extend([calls(said[0]), calls(said[1]), "Done."])
    ident = asked.send("go")
    assert asked.answer(ident) == "Done."
    store = f"instances/{asked.uid}/memories"
    fact = call(system, asked.uid, "facts.list", {})["items"][0]["id"]
    found = call(system, asked.uid, "records.origin", {"guid": fact}, store=store)["items"][0]

    assert (found["message"], found["model"], found["agent"]) == (ident, "stub", "bot_")
    assert found["receipts"] == [
        one["id"] for one in call(system, asked.uid, "receipts.list", {"message": ident})["items"]
    ]
    assert found["receipts"]


def test_malformed_tool_calls_are_results(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools=["remember"])
    deep = {"key": "k", "value": functools.reduce(lambda inner, _: [inner], range(200), "v")}
    said = calls(*[("remember", deep)] * 3)
    said["tool_calls"][0]["function"] = "remember"
    said["tool_calls"][1]["function"]["arguments"] = deep
    model.script.extend([said, {"content": "Done.", "tool_calls": 7}])

    assert asked.ask("go") == "Done."

    results = [one["content"] for one in model.requests[1]["messages"] if one["role"] == "tool"]
    too_deep = "the arguments have more than 100 levels of arrays and objects"
    assert [orjson.loads(one)["error"] for one in results] == [
        "there is no tool ''; tools are remember",
        too_deep,
        too_deep,
    ]


def test_blocks_of_another_shape_do_not_break_a_thread(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, conversation_memory=True)
    deep = functools.reduce(lambda inner, _: [inner], range(200), "v")
    wrong = [
        {"type": "text", "text": 7},
        {"type": ["a"], "text": "b"},
        {"type": "x", "y": deep},
    ]
    text = {"type": "text", "text": "Hi."}
    model.script.append({"content": [*wrong, text]})

    assert asked.ask("one") == "Hi."
    assert asked.ask("two") == "you said: two"
    assert model.sent[1] == [("user", "one"), ("assistant", [text]), ("user", "two")]


def test_records_and_entries_are_found(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools="records_search, knowledge_search")
    memory = asked.operate("memories.create", {"name": "Drinks"})["id"]
    asked.operate("entries.create", {"memory_id": memory, "content": "Ada likes green tea"})
    asked.operate("records.create", {"content": "Bob likes coffee"})
    model.script.extend(
        [
            calls(("records_search", {"query": "coffee"}), ("knowledge_search", {"query": "tea"})),
            "Tea and coffee.",
        ]
    )

    asked.ask("what do they like?")

    records, entries = (
        orjson.loads(one["content"])
        for one in model.requests[1]["messages"]
        if one["role"] == "tool"
    )
    assert [one["content"] for one in records] == ["Bob likes coffee"]
    assert entries == [{"memory": "Drinks", "content": "Ada likes green tea"}]


def test_a_turn_leaves_receipts_of_what_its_tools_have_read(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools="records_search, recall")
    guid = asked.operate("records.create", {"content": "Ada drinks tea"})["guid"]
    fact = asked.operate("facts.set", {"key": "tea", "value": "green"})["fact"]["id"]
    reads = ("records_search", {"query": "tea"}), ("recall", {"key": "tea"})
    model.script.extend([calls(*reads), "Tea."])
    ident = asked.send("What does Ada drink?")
    assert asked.answer(ident) == "Tea."

    receipts = asked.operate("receipts.list", {"message": ident})["items"]
    found = {
        (receipt["operation"], receipt["agent"]): [one["guid"] for one in receipt["found"]]
        for receipt in receipts
    }
    assert found == {("records.search", "bot"): [guid], ("facts.recall", "bot"): [fact]}


@pytest.mark.parametrize("content", ["", " ", "bad"])
def test_write_memory_refuses_what_is_no_fact(
    system: TestSystem, model: ModelServer, content: str
) -> None:
    text = "x" * 32_769 if content == "bad" else content
    asked = Asked(system, model, knowledge_config={"write_memory_id": "mem_none"})
    model.script.extend([calls(("write_memory", {"content": text})), "Sorry."])

    asked.ask("remember that")

    expected = (
        "content is required" if content != "bad" else "an entry has at most 32768 characters"
    )
    assert orjson.loads(model.sent[1][-1][1]) == {"error": expected}


def test_write_memory_names_a_memory_that_does_not_exist(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, knowledge_config={"write_memory_id": "mem_none"})
    model.script.extend([calls(("write_memory", {"content": "a fact"})), "Sorry."])

    asked.ask("remember that")

    assert orjson.loads(model.sent[1][-1][1]) == {"error": "Memory mem_none not found"}


def test_empty_texts_are_dropped_if_the_service_refuses_them(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["records_search"])
    model.script.extend(
        [
            calls(("records_search", {"query": "tea"})) | {"content": " "},
            fault(400, "messages: text cannot be empty"),
            "Done.",
        ]
    )

    assert asked.ask("look") == "Done."
    contents = [[one["content"] for one in sent["messages"]] for sent in model.requests[1:]]
    assert contents == [["look", " ", "[]"], ["look", None, "[]"]]


def test_a_second_refusal_is_the_answer(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model)
    model.script.extend([fault(400, "Text cannot be empty")] * 2)

    assert "Text cannot be empty" in asked.fault("look")


@pytest.mark.parametrize(
    ("args", "script", "text"),
    [
        (
            {},
            [fault(401, "no key")],
            "127.0.0.1 answers 401 Unauthorized (no key): check `api_key`",
        ),
        ({}, [""], "the model answered without text"),
        ({}, ["<think>hm</think>"], "the model answered without text"),
        ({"api_key": ""}, [fault(400, "bad")], "127.0.0.1 answers 400 Bad Request (bad)"),
        (
            {"max_steps": 2},
            [calls(("shell", {}))] * 2,
            "the agent asked the model 2 times without an answer: raise max_steps, or improve the "
            "prompt",
        ),
    ],
)
def test_a_fault_is_the_answer(
    system: TestSystem, model: ModelServer, args: dict[str, Any], script: list[Any], text: str
) -> None:
    asked = Asked(system, model, **args)
    model.script.extend(script)

    assert asked.fault("hello") == text


def test_a_bound_key_is_sent_to_its_host_alone(system: TestSystem, model: ModelServer) -> None:
    """Here both bundles are deployed without the check of secrets."""
    Asked(system, model, api_key="env:BOUND").ask("hello")
    assert model.headers[0]["Authorization"] == "Bearer sk-bound-7f3a"

    asked = Asked(system, model, api_key="env:ELSEWHERE")
    assert asked.fault("hello") == (
        "api_key cannot be read: the secret env:ELSEWHERE may not be sent to 127.0.0.1; add it to "
        "outgoing.secrets"
    )
    assert len(model.requests) == 1


def test_a_fault_keeps_the_conversation_and_repairs_its_end(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, conversation_memory=True, max_steps=1, tools=["records_search"])
    asked.ask("one")
    model.script.extend([calls(("records_search", {"query": "tea"}))])
    assert "without an answer" in asked.fault("two")

    assert asked.ask("three") == "you said: three"

    assert [(role, text) for role, text in model.sent[-1] if role != "tool"] == [
        ("user", "one"),
        ("assistant", "you said: one"),
        ("user", "two"),
        ("assistant", None),
        ("user", "three"),
    ]


def test_each_turn_is_an_episode(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools=["records_search"])
    model.script.extend([calls(("records_search", {"query": "tea"})), "Nothing.", fault(400, "no")])
    asked.ask("look for tea")
    asked.fault("again")

    rows = system.rows(
        asked.uid,
        "SELECT content, owner, scope, data FROM records WHERE kind = 'memory.episode' "
        "ORDER BY row",
    )

    first, second = (orjson.loads(data) for *_, data in rows)
    assert [row[:3] for row in rows] == [
        ("look for tea → Nothing.", "chat:User", f"agent:workflow:{asked.uid}"),
        ('again → {"error":"127.0.0.1 answers 400 Bad Request (no)"}', "chat:User", rows[0][2]),
    ]
    assert (first["success"], first["final_output"], first["trigger_type"]) == (
        True,
        "Nothing.",
        "chat",
    )
    assert (second["success"], second["error_code"], second["error_message"]) == (
        False,
        "model",
        "127.0.0.1 answers 400 Bad Request (no)",
    )
    steps = system.rows(
        asked.uid, "SELECT content, data FROM records WHERE kind = 'memory.step' ORDER BY row"
    )
    assert [text for text, _ in steps] == ["look for tea", "", "Nothing.", "again"]
    assert orjson.loads(steps[1][1])["tool"] == "records_search"


def test_episodes_can_be_turned_off(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, record_episodes=False)
    asked.ask("hello")

    assert system.rows(asked.uid, "SELECT kind FROM records") == []


def recall_of(asked: Asked, **arguments: Any) -> str:
    """Let the model call `recall`, and return the result."""
    asked.model.script.extend([calls(("recall", arguments)), "Done."])
    asked.ask("go")
    result: str = asked.model.sent[-1][-1][1]
    return result


def remember_in(asked: Asked, **arguments: Any) -> str:
    """Let the model call `remember`, and return the result."""
    asked.model.script.extend([calls(("remember", arguments)), "Done."])
    asked.ask("go")
    result: str = asked.model.sent[-1][-1][1]
    return result


def test_the_model_remembers_and_recalls(system: TestSystem, model: ModelServer) -> None:
    asked = Asked(system, model, tools=["memory_read", "memory_write"])

    assert recall_of(asked) == "Memory is empty — no facts stored."
    assert recall_of(asked, key="color") == "No memory found for key: color"
    assert recall_of(asked, query="shoes") == "No memories found for query: shoes"
    assert remember_in(asked, value="blue") == "Error: key is required"
    assert remember_in(asked, key="color") == "Error: value is required"
    assert remember_in(asked, key="color", value="blue") == "Remembered: color = blue (created)"
    assert remember_in(asked, key="color", value=7) == "Remembered: color = 7 (updated)"
    assert remember_in(asked, key="x", value="y", fact_type="rumor").startswith(
        "Error writing memory: unknown fact_type 'rumor'"
    )
    assert recall_of(asked, key="color") == "color = 7"
    assert recall_of(asked, key="colo").startswith('[{"key":"color","value":7,"confidence":')
    assert recall_of(asked).startswith('[{"key":"color","value":7,"confidence":')


def test_a_query_finds_facts_procedures_and_episodes(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["recall"])
    asked.operate("facts.set", {"key": "tea_kind", "value": "green"})
    asked.operate("facts.set", {"key": "tea_hour", "value": 5, "scope": "user", "user_id": "x:y"})
    asked.operate(
        "procedures.save",
        {
            "name": "brew",
            "description": "how to brew tea",
            "procedure_type": "prompt_template",
            "procedure_content": {},
            "trigger_conditions": {"goal_contains": "tea"},
        },
    )
    asked.ask("I drink tea")

    found = orjson.loads(recall_of(asked, query="tea"))

    assert [one.get("key", one.get("type")) for one in found] == [
        "tea_kind",
        "procedure",
        "episode",
    ]
    assert found[2]["summary"] == "I drink tea → you said: I drink tea"


def test_what_a_tool_writes_keeps_the_verdict_and_the_key_of_the_message(
    system: TestSystem, model: ModelServer
) -> None:
    asked = Asked(system, model, tools=["remember"])
    model.script.extend([calls(("remember", {"key": "k", "value": "v"})), "Done."])
    via = orjson.dumps(["webhook:github", "unverified", "key1"]).decode()
    envelope = orjson.dumps({"from": "User", "id": "me", "args": [{"text": "go"}]})
    assert asked.answer(system.client.enter_raw(asked.uid, envelope, via=via)) == "Done."

    found = "SELECT DISTINCT verdict, origins.key, agent FROM origins WHERE profile LIKE 'turn:%'"
    assert system.rows(asked.uid, found) == [("unverified", "key1", "bot_")]
