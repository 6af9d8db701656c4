"""One turn of an agent: the executor of the deferred calls of the block `agent`.

A turn may run again after a crash. Each response of the model is committed before its tools run,
and each call of a tool has an idempotency key, so a repeated turn continues where the first one
ended.
"""

import asyncio
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

import orjson
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langsmith import tracing_context

from memrelay.agents import history
from memrelay.agents.calls import Calls, make_calls
from memrelay.agents.graph import Steps, graph_with, is_answer
from memrelay.agents.history import PROMPT_ID, fit
from memrelay.agents.message_serializer import MessageSerializer
from memrelay.agents.model import ChatModel, EmptyText, ModelFault, ModelOptions
from memrelay.agents.request import TurnRequest, parse_request
from memrelay.agents.saver import MemrelaySaver
from memrelay.agents.tools import as_error, find_knowledge, make_tools
from memrelay.agents.wire import find_faults, from_wire, read_text, to_wire
from memrelay.blocks.async_call import OperationFailed, OperationUnavailable
from memrelay.blocks.contract import RunningCall
from memrelay.guarded_http.client import GuardedClient
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.agent_memory.checkpoint_table import pack, unpack
from memrelay.memory.models.agent_memory.conversations import turn_thread

FOLLOW = "[System instructions — follow these for the entire conversation]"
Json = dict[str, Any]
SUMMARY_STEP = "summary"
# Where the responses of a turn are stored: writes on a thread that only this turn uses.
CHECKPOINT, CHANNEL, TYPE = "turn", "response", "json"
MAX_ACTION = 2_000  # characters of a tool's result in an episode


def system_messages(prompt: str, knowledge: str) -> list[BaseMessage]:
    """Return the system messages of one request. They are never stored."""
    return [SystemMessage(text) for text in (prompt, knowledge) if text]


def fallback_messages(prompt: str) -> list[BaseMessage]:
    """Return the prompt as a message of the user, for services that ignore the system role.

    Its id is always the same, so that a conversation contains it once.
    """
    return [HumanMessage(f"{FOLLOW}\n{prompt}", id=PROMPT_ID)] if prompt else []


class TurnFault(Exception):
    """The turn has no answer. The text is for the user of the agent, the code for its episode."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


async def run_turn(fields: Mapping[str, Any], deferred_call: RunningCall) -> Json:
    """Return the answer of a turn: `text`, or `error` and `error_code`, and the `actions` of its
    tools. Raises OperationUnavailable: the turn runs again later.
    """
    request = parse_request(fields)
    actions: list[Json] = []
    try:
        open_client = partial(
            GuardedClient, deferred_call.outgoing, "models", deferred_call.pipeline
        )
        options = request.options
        model = ChatModel(
            await deferred_call.share(f"agents.client/{deferred_call.pipeline}", open_client),
            ModelOptions(options.url, options.model, options.temperature, options.max_tokens),
            _read_key(request, deferred_call),
        )
        # LangSmith gets no trace, even if the environment turns tracing on.
        with tracing_context(enabled=False):
            text = await Turn(request, deferred_call, model, actions).run()
    except OperationUnavailable:
        raise
    except (TurnFault, ModelFault, OperationFailed) as fault:
        failed = {"error": str(fault), "error_code": fault.code}
        return failed | {"actions": actions, "ended_at_ms": _now_ms()}
    return {"text": text, "actions": actions, "ended_at_ms": _now_ms()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _read_key(request: TurnRequest, deferred_call: RunningCall) -> str:
    """Return the API key, "" for none. Raises TurnFault."""
    reference = request.options.api_key
    try:
        if deferred_call.outgoing.binds(reference):
            host = urlsplit(request.options.url).hostname or ""
            return deferred_call.secret_for(reference, host)
        return deferred_call.secret(reference) if reference else ""
    except LookupError as error:
        raise TurnFault("api_key", f"api_key cannot be read: {error.args[0]}") from error


def _open_serializer() -> AbstractAsyncContextManager[MessageSerializer]:
    return nullcontext(MessageSerializer())


class Turn:
    """The nodes of one turn's graph. `actions` collects what the tools did."""

    def __init__(
        self,
        request: TurnRequest,
        deferred_call: RunningCall,
        model: ChatModel,
        actions: list[Json],
    ) -> None:
        self._request, self._deferred_call, self._model = request, deferred_call, model
        self._actions = actions
        self._tools = make_tools(request, deferred_call.operate, deferred_call.id)
        self._responses = Responses(
            make_calls(deferred_call, store=request.store),
            request.alias,
            turn_thread(deferred_call.id),
        )
        self._knowledge: str | None = None

    async def run(self) -> str:
        """Return the text of the answer.

        Raises TurnFault, ModelFault and OperationFailed.
        """
        request = self._request
        saver = (
            MemrelaySaver(
                self._deferred_call,
                request.alias,
                store=request.store,
                serde=await self._deferred_call.share("agents.messages", _open_serializer),
            )
            if request.is_remembered
            else None
        )
        asked = HumanMessage(
            request.text,
            id=self._deferred_call.id,
            additional_kwargs={"timestamp": format_time(request.asked_at_ms)},
        )
        limit = 2 * request.options.max_steps + 10
        async with self._responses:
            ended = await graph_with(saver).ainvoke(
                {"messages": [*fallback_messages(request.prompt), asked]},
                {"configurable": {"thread_id": request.thread}, "recursion_limit": limit},
                context=Steps(self.prepare, self.ask, self.call_tool),
                durability="exit" if saver is not None else None,
            )
        text = read_text(ended["messages"][-1])
        if not text.strip():
            raise TurnFault("no_text", "the model answered without text")
        return text

    async def prepare(self, messages: list[BaseMessage]) -> list[Any]:
        """Return the conversation as the model gets it, unless the turn has its answer already."""
        at = self._find_question(messages)
        # A tail without an answer is from an earlier attempt of this turn, which runs again.
        if messages[at + 1 :] and is_answer(messages[-1]):
            return []
        # The bundle may have lost its prompt since the last turn.
        asked = [one for one in messages[: at + 1] if self._request.prompt or one.id != PROMPT_ID]
        fitted = await fit(asked, self._request.options, self._summarize)
        if fitted == messages:
            return []
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *fitted]

    def _find_question(self, messages: Sequence[BaseMessage]) -> int:
        return next(index for index, one in enumerate(messages) if one.id == self._deferred_call.id)

    async def ask(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the next message of the model."""
        at = self._find_question(messages)
        step = sum(isinstance(one, AIMessage) for one in messages[at:])
        if step >= self._request.options.max_steps:
            raise TurnFault(
                "max_steps",
                f"the agent asked the model {step} times without an answer: raise max_steps, or "
                "improve the prompt",
            )
        response = await self._respond(messages, step)
        answer = from_wire(response, f"{self._deferred_call.id}/{step}")
        answer.additional_kwargs["timestamp"] = format_time(response["at_ms"])
        cleaned = history.clean(answer)
        return answer.model_copy(update={"content": cleaned.content if cleaned else ""})

    async def call_tool(self, asked: AIMessage, call: ToolCall) -> ToolMessage:
        """Return the result of a tool. A fault of the model is a result too."""
        name, ident = call["name"], str(call["id"])
        index = [one["id"] for one in asked.tool_calls].index(ident)
        step = str(asked.id).rpartition("/")[2]
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            result = as_error(f"there is no tool {name!r}; tools are {known}")
        elif fault := find_faults(asked).get(ident):
            result = as_error(fault)
        else:
            result = await tool.call(call["args"], f"{step}/{index}")
        self._actions.append({"tool": name, "result": result[:MAX_ACTION]})
        return ToolMessage(result, tool_call_id=ident, name=name, id=f"{asked.id}/{index}")

    async def _respond(self, messages: Sequence[BaseMessage], step: int) -> Json:
        """Return the response of a step: the committed one, or that of a request."""
        if (known := await self._responses.find(str(step))) is not None:
            return known
        if self._knowledge is None:
            self._knowledge = await find_knowledge(self._request, self._deferred_call.operate)
        sent = [*system_messages(self._request.prompt, self._knowledge), *messages]
        tools = [tool.on_wire for tool in self._tools.values()]
        try:
            response = await self._send(sent, str(step), tools)
        except EmptyText:
            filled = [history.drop_blank(message) for message in sent]
            again = [one for one in filled if one is not None]
            response = await self._send(again, f"{step}/again", tools)
        return await self._commit(str(step), response)

    async def _summarize(self, messages: Sequence[BaseMessage]) -> Json:
        """Return the response of the model to a request for a summary."""
        if (known := await self._responses.find(SUMMARY_STEP)) is not None:
            return known
        return await self._commit(SUMMARY_STEP, await self._send(messages, SUMMARY_STEP, ()))

    async def _send(
        self, messages: Sequence[BaseMessage], step: str, tools: Sequence[Json]
    ) -> Json:
        sent = [to_wire(message) for message in messages]
        return await self._model.ask(sent, tools, request_id=f"{self._deferred_call.id}/{step}")

    async def _commit(self, step: str, response: Json) -> Json:
        response |= {"at_ms": _now_ms()}
        if step != SUMMARY_STEP and not response["tool_calls"]:
            # The answer ends the turn: its checkpoint, or the result of the deferred call, commits
            # it.
            return response
        return await self._responses.commit(step, response)


class Responses:
    """The responses of one turn by step. Use it as an asynchronous context, which begins to read
    what an earlier run of the turn has committed.

    The first commit of a step wins, so a turn that runs again after a crash gets the responses of
    its first run.
    """

    def __init__(self, calls: Calls, agent: str, thread: str) -> None:
        self._calls, self._address = calls, {"agent": agent, "thread": thread, "id": CHECKPOINT}

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Read no further."""
        self._reading.cancel()

    async def find(self, step: str) -> Json | None:
        """Return the response of a step, None if it is not committed. Raises OperationFailed."""
        return (await self._reading).get(step)

    async def _read(self) -> dict[str, Json]:
        data, total, writes = b"", 1, []
        while len(data) < total:
            query = self._address | {"at": len(data)}
            output = await self._calls.arun("checkpoints.get", query)
            data += b64decode(output["data"])
            total, writes = output["total"], output["writes"]
        at, responses = 0, dict[str, Json]()
        for write in writes:
            responses[write["task"]] = orjson.loads(unpack(data[at : at + write["size"]]))
            at += write["size"]
        return responses

    async def commit(self, step: str, response: Json) -> Json:
        """Commit the response of a step. Return the one that counts."""
        data = pack(orjson.dumps(response))
        write = {"idx": 0, "channel": CHANNEL, "type": TYPE, "size": len(data)}
        arguments = self._address | {
            "task": step,
            "writes": [write],
            "data": b64encode(data).decode(),
        }
        key = f"response/{step}/{zlib.crc32(data):08x}"
        written = await self._calls.arun("checkpoints.write", arguments, key=key)
        if written["added"]:
            return response
        # Another worker, which has lost the pipeline since, was faster.
        return (await self._read())[step]
