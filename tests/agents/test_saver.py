"""MemrelaySaver in graphs: conversations, time travel, long values, and shared messages."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from memrelay import EmbeddedStore, connect, connect_sync, open_store
from memrelay.integrations.langgraph import MemrelaySaver
from tests.support.web_system import WebSystem

ADA: Any = {"configurable": {"thread_id": "ada"}}
BOB: Any = {"configurable": {"thread_id": "bob"}}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with open_store(tmp_path / "a.db") as store:
        yield store


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        web_system.deploy()
        yield web_system


def answer(state: MessagesState) -> Any:
    names = [one.text[6:] for one in state["messages"] if one.text.startswith("I am ")]
    return {"messages": [AIMessage(f"You are {names[0]}." if names else "Who are you?")]}


def chat_graph(saver: MemrelaySaver) -> Any:
    """The graph of LangGraph's documentation on short-term memory, with a fixed model."""
    builder = StateGraph(MessagesState)
    builder.add_node("call_model", answer)
    builder.add_edge(START, "call_model")
    return builder.compile(checkpointer=saver)


def ask(graph: Any, text: str, config: Any, **options: Any) -> str:
    found = graph.invoke({"messages": [HumanMessage(text)]}, config, **options)
    return str(found["messages"][-1].content)


def test_a_graph_remembers_a_conversation(store: EmbeddedStore) -> None:
    graph = chat_graph(MemrelaySaver(store))
    assert ask(graph, "Hello", ADA) == "Who are you?"
    assert ask(graph, "I am  Ada", ADA) == "You are Ada."
    assert ask(graph, "Hello", BOB) == "Who are you?"
    again = chat_graph(MemrelaySaver(store))
    assert ask(again, "Who am I?", ADA) == "You are Ada."
    assert ask(chat_graph(MemrelaySaver(store, "other")), "Who am I?", ADA) == "Who are you?"


def test_a_graph_remembers_over_http(web_system: WebSystem) -> None:
    async def over_http() -> Any:
        async with connect(web_system.url) as client:
            graph = chat_graph(MemrelaySaver(client))
            await graph.ainvoke({"messages": [HumanMessage("I am  Ada")]}, ADA)
            found = await graph.ainvoke({"messages": [HumanMessage("Who?")]}, ADA)
            return found["messages"][-1].content

    assert asyncio.run(over_http()) == "You are Ada."
    with connect_sync(web_system.url) as client:
        assert ask(chat_graph(MemrelaySaver(client)), "Who?", ADA) == "You are Ada."
        found = client.operate("conversations.history", {"thread": "ada", "limit": 2})
        assert [one["text"] for one in found["messages"]] == ["Who?", "You are Ada."]
        assert found["has_more"]


def test_the_state_of_each_step_can_be_read_and_changed(store: EmbeddedStore) -> None:
    graph = chat_graph(MemrelaySaver(store))
    ask(graph, "I am  Ada", ADA)
    ask(graph, "Who?", ADA)
    history = list(graph.get_state_history(ADA))
    assert [len(one.values.get("messages", [])) for one in history] == [4, 3, 2, 2, 1, 0]
    assert list(graph.get_state_history(ADA, limit=2)) == history[:2]
    assert list(graph.get_state_history(ADA, before=history[3].config)) == history[4:]
    assert list(graph.get_state_history(ADA, filter={"source": "input"})) == [
        history[2],
        history[5],
    ]
    fork = graph.update_state(history[3].config, {"messages": [HumanMessage("I am  Eve")]})
    assert graph.get_state(ADA).config == fork
    assert len(graph.get_state(ADA).values["messages"]) == 3


def test_an_interrupted_graph_resumes_in_another_process(tmp_path: Path) -> None:
    def approve(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"sent: {interrupt('send it?')}")]}

    def run(given: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("approve", approve)
        builder.add_edge(START, "approve")
        with open_store(tmp_path / "a.db") as store:
            graph = builder.compile(checkpointer=MemrelaySaver(store))
            return graph.invoke(given, ADA)

    assert run({"messages": [HumanMessage("mail")]})["__interrupt__"][0].value == "send it?"
    assert run(Command(resume="yes"))["messages"][-1].content == "sent: yes"


def put(saver: MemrelaySaver, messages: list[Any]) -> Any:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"messages": messages}
    checkpoint["channel_versions"] = {"messages": 1}
    config: Any = {"configurable": {"thread_id": "ada", "checkpoint_ns": ""}}
    return saver.put(config, checkpoint, {"source": "loop"}, {})


def messages_of(saver: MemrelaySaver, config: Any = ADA) -> Any:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]["messages"]


def test_messages_are_stored_once(store: EmbeddedStore) -> None:
    saver = MemrelaySaver(store)
    messages = [HumanMessage(f"message {n}", id=str(n)) for n in range(100)]
    first = put(saver, messages)
    put(saver, [*messages, HumanMessage("new")])
    messages[50].content = "changed in place"
    put(saver, messages[10:])
    assert messages_of(saver) == messages[10:]
    assert messages_of(saver, first)[50].content == "message 50"
    sizes = [len(lines) for lines in read_values(store)]
    assert len(sizes) == 102
    # Another saver does not know the parts until it has read a checkpoint.
    other = MemrelaySaver(store)
    other.get_tuple(ADA)
    put(other, [*messages[10:], HumanMessage("last")])
    assert len(list(read_values(store))) == 103


def read_values(store: EmbeddedStore) -> Iterator[bytes]:
    for (value,) in store._store._connection.execute("SELECT value FROM checkpoint_values"):
        yield value


@pytest.mark.parametrize("count", [1, 3])
def test_long_values_are_split(web_system: WebSystem, count: int) -> None:
    with connect_sync(web_system.url) as client:
        saver = MemrelaySaver(client, f"long{count}")
        noise = "".join(chr(32 + n * 7919 % 89 + n * n % 7) for n in range(900_000))
        messages = [HumanMessage(f"{n}{noise[n:]}", id=str(n)) for n in range(count)]
        config = put(saver, messages)
        assert messages_of(MemrelaySaver(client, f"long{count}")) == messages
        saver.put_writes(config, [("a", noise), ("b", 1)], "task")
        found = saver.get_tuple(config)
        assert found is not None
        assert found.pending_writes == [("task", "a", noise), ("task", "b", 1)]


def test_a_base_that_another_program_pruned_is_not_needed(store: EmbeddedStore) -> None:
    saver, other = MemrelaySaver(store), MemrelaySaver(store)
    messages = [HumanMessage("a" * 100, id="1")]
    put(saver, messages)
    other.delete_thread("ada")
    put(saver, [*messages, HumanMessage("b", id="2")])
    assert [one.id for one in messages_of(other)] == ["1", "2"]


def test_values_that_are_no_lists_of_messages_survive(store: EmbeddedStore) -> None:
    saver = MemrelaySaver(store)
    checkpoint = empty_checkpoint()
    values = {
        "none": None,
        "bytes": b"\0\1",
        "empty": [],
        "mixed": ["x" * 100, None, b"y" * 100],
        "numbers": list(range(1000)),
        "dicts": [{"a": "x" * 100}, {"b": {1, 2}, "c": "x" * 100}],
    }
    checkpoint["channel_values"] = values
    config = saver.put(ADA, checkpoint, {}, {})
    found = saver.get_tuple(config)
    assert found is not None and found.checkpoint["channel_values"] == values


class Log(TypedDict):
    log: Annotated[list[str], DeltaChannel(lambda old, new: old + [x for w in new for x in w])]


def test_a_pruned_thread_keeps_its_delta_channels(store: EmbeddedStore) -> None:
    builder = StateGraph(Log)
    builder.add_node("add", lambda state: {"log": [f"n{len(state['log'])}"]})
    builder.add_edge(START, "add")
    saver = MemrelaySaver(store)
    graph = builder.compile(checkpointer=saver)
    for n in range(5):
        graph.invoke({"log": [f"i{n}"]}, ADA)
    before = graph.get_state(ADA).values
    assert len(before["log"]) == 10
    saver.prune(["ada"])
    assert graph.get_state(ADA).values == before
    assert len(graph.invoke({"log": ["last"]}, ADA)["log"]) == 12


def test_the_sync_methods_of_an_async_client_name_the_remedy(web_system: WebSystem) -> None:
    async def use() -> None:
        async with connect(web_system.url) as client:
            graph = chat_graph(MemrelaySaver(client))
            with pytest.raises(TypeError, match="use the async methods, such as `ainvoke`"):
                ask(graph, "Hello", ADA)

    asyncio.run(use())


def test_without_langgraph_the_import_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['langgraph'] = None\n"
        "import memrelay.agents.calls\n"
        "try:\n    import memrelay.integrations.langgraph\n"
        "except ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install -e '.[agents]'" in done.stdout
