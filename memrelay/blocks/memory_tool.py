"""memory_tool: run a call of an agent's memory tool, on stores that agents, users and chats have
(docs/stores.md)."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    AnyMemoryId,
    StoreArgs,
    find_speaker,
    make_context,
    naming_call,
    parse_object,
    retry_when_ready,
    within_message,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import Refused, VectorPending
from memrelay.memory.models.shared_stores.memory_tool import Dialect, ToolInput, run_tool
from memrelay.memory.models.shared_stores.stores import agent_store, chat_store, user_store
from memrelay.memory.models.shared_stores.tool.arguments import ToolAnswer
from memrelay.memory.records.data import check_integers

MAX_TTL_S = 10**10
VOUCHED: tuple[Literal["chat", "user"], ...] = ("chat", "user")
USER = "user_id"
NOT_ARGUMENTS = (
    'send the arguments of the tool call as a JSON object, like {"command": "view", "key": "todo"}'
)


class MemoryToolArgs(StoreArgs):
    """The text of a message is the arguments of a tool call, as JSON."""

    memory_id: AnyMemoryId = ""
    """The built-in store `instances/${pipeline_uid}/stores`, which is also the default.
    No other store is possible."""
    agent_id: Annotated[str, Field(max_length=64)] = ""
    """The agent that calls, and its own store. By default the sender name of the block's agent."""
    dialect: Dialect = "robutler"
    """The tool that the model knows: `robutler`, or `anthropic` for memory_20250818."""
    default_ttl: Annotated[int, Field(ge=0, le=MAX_TTL_S)] = 0
    """Seconds after which an entry expires that is created without `ttl`. 0: no default."""
    sharing: bool = True
    """Whether the agent may share stores with other agents."""

    @property
    def only_store(self) -> str:
        """Return the name of the built-in store of the block."""
        return "stores"

    @property
    def embeds(self) -> bool:
        """Return True: the search compares meanings."""
        return True


@block("memory_tool", MemoryToolArgs)
def memory_tool(call: Call, args: MemoryToolArgs) -> Message:
    """Return `{value, is_error}`. The scopes `user` and `chat` are the stores `user:SPEAKER` and
    `chat:PIPELINE/SWARM`."""
    try:
        arguments = _parse_arguments(call.text)
    except Refused as refused:
        text = str(refused)
        value = text if args.dialect == "anthropic" else {"error": text}
        return call.reply_json(ToolAnswer(value, is_error=True))
    agent, user = call.agent, _find_user(call)
    tool_input = ToolInput(
        agent=args.agent_id or agent_store(agent.name or agent.alias),
        user=user_store(user) if user else "",
        chat=chat_store(agent.pipeline, agent.swarm) if agent.swarm else "",
        vouched=VOUCHED,
        arguments=arguments,
        dialect=args.dialect,
        default_ttl_s=args.default_ttl,
        sharing=args.sharing,
    )
    try:
        with naming_call("memory_tool.write", lambda: asdict(tool_input)):
            answer = run_tool(call.tx, tool_input, make_context(call))
    except VectorPending as awaited:
        raise retry_when_ready(awaited) from awaited
    return within_message(call, call.reply_json(answer))


def _find_user(call: Call) -> str:
    """Return the user that a trusted field of the message names, else the speaker; "" for nobody.

    A trusted field without a user means that the user is unknown.
    """
    if USER in call.message.vouched:
        named = call.part.get(USER)
        return named if isinstance(named, str) else ""
    return find_speaker(call)


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments. Raises Refused."""
    arguments = parse_object(text)
    if arguments is None:
        raise Refused(NOT_ARGUMENTS)
    check_integers(text.encode())
    return arguments
