"""A conversation with a model in plain LangGraph: the reference of benchmarks/agents.py."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import aiohttp
import orjson
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode

ROLES = {"human": "user", "ai": "assistant"}


class State(TypedDict):
    """The conversation."""

    messages: Annotated[list[BaseMessage], add_messages]


class PlainAgent:
    """Answers over one HTTP connection that stays open, with the newest messages from SQLite."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        prompt: str,
        saver: AsyncSqliteSaver,
        durability: Literal["async", "exit"],
    ) -> None:
        self._session, self._url, self._prompt = session, f"{url}/chat/completions", prompt
        self._durability = durability
        graph = StateGraph(State)
        graph.add_node("prepare", self._prepare)
        graph.add_node("ask", self._ask)
        graph.add_node("tools", ToolNode([]))
        graph.add_edge(START, "prepare")
        graph.add_edge("prepare", "ask")
        graph.add_conditional_edges("ask", _after_asking, ["tools", END])
        graph.add_edge("tools", "ask")
        self._graph = graph.compile(checkpointer=saver)

    async def answer(self, text: str, thread: str) -> str:
        """Return the answer to a message of the thread."""
        ended = await self._graph.ainvoke(
            {"messages": [HumanMessage(text)]},
            {"configurable": {"thread_id": thread}},
            durability=self._durability,
        )
        return str(ended["messages"][-1].content)

    async def post(self, body: bytes) -> bytes:
        """Return the body of an answer of the model."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url, data=body, headers=headers) as response:
            return await response.read()

    def body_of(self, messages: list[BaseMessage]) -> bytes:
        """Return the request to the model."""
        sent = [{"role": "system", "content": self._prompt}]
        sent += [{"role": ROLES[one.type], "content": str(one.content)} for one in messages]
        return orjson.dumps({"model": "stub", "messages": sent})

    async def _prepare(self, state: State) -> dict[str, Any]:
        return {"messages": []}

    async def _ask(self, state: State) -> dict[str, Any]:
        answer = orjson.loads(await self.post(self.body_of(state["messages"])))
        return {"messages": [AIMessage(answer["choices"][0]["message"]["content"])]}


def _after_asking(state: State) -> str:
    last = state["messages"][-1]
    return "tools" if isinstance(last, AIMessage) and last.tool_calls else END


@asynccontextmanager
async def open_plain_agent(
    url: str, prompt: str, file: Path, durability: Literal["async", "exit"]
) -> AsyncIterator[PlainAgent]:
    """Yield an agent with its checkpoints in a file."""
    async with (
        aiohttp.ClientSession() as session,
        AsyncSqliteSaver.from_conn_string(str(file)) as saver,
    ):
        yield PlainAgent(session, url, prompt, saver, durability)
