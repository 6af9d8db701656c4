"""The graph of one turn: prepare the conversation, ask the model, run its tools, ask again."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypedDict

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt.tool_node import ToolCallRequest

PREPARE, ASK, TOOLS = "prepare", "ask", "tools"


class State(TypedDict):
    """The conversation. A message replaces an earlier one with its id."""

    messages: Annotated[list[BaseMessage], add_messages]


class Node(Protocol):
    """A step of the graph."""

    async def __call__(self, state: State) -> dict[str, Any]:
        """Return the change of the conversation."""


CallTool = Callable[[ToolCallRequest, Any], Awaitable[ToolMessage]]


def build_graph(
    prepare: Node, ask: Node, call_tool: CallTool, *, checkpointer: Any
) -> CompiledStateGraph[State, None, State, State]:
    """Return the graph. `checkpointer` is None for a conversation that is not stored."""
    graph = StateGraph(State)
    graph.add_node(PREPARE, prepare)
    graph.add_node(ASK, ask)
    # The tools are no functions of LangChain: `call_tool` runs all of them.
    graph.add_node(TOOLS, ToolNode([], handle_tool_errors=False, awrap_tool_call=call_tool))
    graph.add_edge(START, PREPARE)
    graph.add_conditional_edges(PREPARE, _after_preparing, [ASK, END])
    graph.add_conditional_edges(ASK, _after_asking, [TOOLS, END])
    graph.add_edge(TOOLS, ASK)
    return graph.compile(checkpointer=checkpointer)


def is_answer(message: BaseMessage) -> bool:
    """Return whether a message is an answer of the model without tool calls."""
    return isinstance(message, AIMessage) and not message.tool_calls


def _after_preparing(state: State) -> str:
    return END if is_answer(state["messages"][-1]) else ASK


def _after_asking(state: State) -> str:
    return END if is_answer(state["messages"][-1]) else TOOLS
