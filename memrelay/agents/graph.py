"""The graph of a turn: prepare the conversation, ask the model, run its tools, ask again."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.runtime import Runtime

PREPARE, ASK, TOOLS = "prepare", "ask", "tools"


class State(TypedDict):
    """The conversation. A message replaces an earlier one with its id."""

    messages: Annotated[list[BaseMessage], add_messages]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one turn, which is the context of the graph's run."""

    # Returns changes of the conversation before the model is asked.
    prepare: Callable[[list[BaseMessage]], Awaitable[list[Any]]]
    # Returns the next message of the model.
    ask: Callable[[list[BaseMessage]], Awaitable[BaseMessage]]
    # Returns the result of a tool call in a message of the model.
    call_tool: Callable[[AIMessage, ToolCall], Awaitable[ToolMessage]]


Graph = CompiledStateGraph[State, Steps, State, State]


def graph_with(saver: BaseCheckpointSaver[Any] | None) -> Graph:
    """Return the graph. `saver` is None for a conversation that is not stored."""
    return _compiled() if saver is None else _compiled().copy({"checkpointer": saver})


@cache
def _compiled() -> Graph:
    """Compile the graph once, since that takes longer than a turn without the model."""
    graph = StateGraph(State, Steps)
    graph.add_node(PREPARE, _prepare)
    graph.add_node(ASK, _ask)
    # The tools are no functions of LangChain: `_call_tool` runs all of them.
    graph.add_node(TOOLS, ToolNode([], handle_tool_errors=False, awrap_tool_call=_call_tool))
    graph.add_edge(START, PREPARE)
    graph.add_conditional_edges(PREPARE, _after_preparing, [ASK, END])
    graph.add_conditional_edges(ASK, _after_asking, [TOOLS, END])
    graph.add_edge(TOOLS, ASK)
    return graph.compile()


def is_answer(message: BaseMessage) -> bool:
    """Return whether a message is an answer of the model without tool calls."""
    return isinstance(message, AIMessage) and not message.tool_calls


async def _prepare(state: State, runtime: Runtime[Steps]) -> dict[str, Any]:
    return {"messages": await runtime.context.prepare(state["messages"])}


async def _ask(state: State, runtime: Runtime[Steps]) -> dict[str, Any]:
    return {"messages": [await runtime.context.ask(state["messages"])]}


async def _call_tool(request: ToolCallRequest, execute: Any) -> ToolMessage:
    steps: Any = request.runtime.context
    result: ToolMessage = await steps.call_tool(request.state["messages"][-1], request.tool_call)
    return result


# LangGraph would run a plain function in another thread.
async def _after_preparing(state: State) -> str:
    return END if is_answer(state["messages"][-1]) else ASK


async def _after_asking(state: State) -> str:
    return END if is_answer(state["messages"][-1]) else TOOLS
