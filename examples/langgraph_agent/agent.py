"""A LangGraph agent whose threads and long-term memory are in one file."""

import argparse
import json
import os
import urllib.request

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

from memrelay import open_store
from memrelay.integrations.langgraph import MemrelaySaver, MemrelayStore

MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:11434/v1")
MODEL = os.environ.get("MODEL", "llama3.2")
ROLES = {"human": "user", "ai": "assistant"}
FACTS = ("facts",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", default="agent.db")
    parser.add_argument("--thread", default="main", help="a conversation; facts are in all threads")
    parser.add_argument("text", help="a message. `remember: TEXT` stores a fact first")
    options = parser.parse_args()

    builder = StateGraph(MessagesState)
    builder.add_node("remember", remember)
    builder.add_node("answer", answer)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", "answer")
    with open_store(options.file, embedder="none") as file:
        graph = builder.compile(checkpointer=MemrelaySaver(file), store=MemrelayStore(file))
        state = graph.invoke(
            {"messages": [HumanMessage(options.text)]},
            {"configurable": {"thread_id": options.thread}},
        )
    print(state["messages"][-1].content)


def remember(state: MessagesState, runtime: Runtime) -> dict[str, list[BaseMessage]]:
    """Store the fact of the newest message, if it states one."""
    prefix, _, fact = str(state["messages"][-1].content).partition(":")
    if prefix == "remember" and fact and runtime.store is not None:
        runtime.store.put(FACTS, fact.strip(), {"fact": fact.strip()})
    return {"messages": []}


def answer(state: MessagesState, runtime: Runtime) -> dict[str, list[BaseMessage]]:
    """Let the model answer, with the facts that fit to the question and the whole thread."""
    question = str(state["messages"][-1].content)
    items = runtime.store.search(FACTS, query=question) if runtime.store else []
    facts = "\n".join(str(item.value["fact"]) for item in items)
    messages = [{"role": "system", "content": f"Be brief. What you know:\n{facts}"}]
    messages += [
        {"role": ROLES[message.type], "content": str(message.content)}
        for message in state["messages"]
    ]
    return {"messages": [AIMessage(ask_model(messages))]}


def ask_model(messages: list[dict[str, str]]) -> str:
    request = urllib.request.Request(
        f"{MODEL_URL}/chat/completions",
        json.dumps({"model": MODEL, "messages": messages}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return str(json.load(response)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
