"""One turn of an agent: the executor of the deferred calls of the block `agent`.

A turn may run again after a crash. Each response of the model is committed before its tools run,
and each call of a tool has an idempotency key, so a repeated turn continues where the first one
ended.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

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
from memrelay.agents.calls import make_calls
from memrelay.agents.compaction import fit
from memrelay.agents.graph import Steps, graph_with, is_answer
from memrelay.agents.guarded_http import GuardedClient
from memrelay.agents.history import PROMPT_ID
from memrelay.agents.model import ChatModel, EmptyText, ModelFault, ModelOptions
from memrelay.agents.request import TurnRequest, parse_request
from memrelay.agents.responses import Responses
from memrelay.agents.saver import MemrelaySaver
from memrelay.agents.tool import as_error
from memrelay.agents.tools import find_knowledge, make_tools
from memrelay.agents.wire import find_faults, from_wire, read_text, to_wire
from memrelay.blocks.async_call import OperationFailed
from memrelay.blocks.contract import RunningCall
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.models.agent_memory.conversations import turn_thread

FOLLOW = "[System instructions — follow these for the entire conversation]"
Json = dict[str, Any]
SUMMARY_STEP = "summary"
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
    """The turn has no answer. The text is for the user of the agent."""


async def run_turn(fields: Mapping[str, Any], deferred_call: RunningCall) -> Json:
    """Return the answer of a turn: `text` or `error`, and the `actions` of its tools."""
    request = parse_request(fields)
    actions: list[Json] = []
    try:
        async with GuardedClient(private=deferred_call.may_call_private) as client:
            model = ChatModel(client, _model_options(request), _read_key(request, deferred_call))
            # LangSmith gets no trace, even if the environment turns tracing on.
            with tracing_context(enabled=False):
                text = await Turn(request, deferred_call, model, actions).run()
    except (TurnFault, ModelFault, OperationFailed) as fault:
        return {"error": str(fault), "actions": actions, "ended_at_ms": _now_ms()}
    return {"text": text, "actions": actions, "ended_at_ms": _now_ms()}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _model_options(request: TurnRequest) -> ModelOptions:
    options = request.options
    return ModelOptions(options.url, options.model, options.temperature, options.max_tokens)


def _read_key(request: TurnRequest, deferred_call: RunningCall) -> str:
    """Return the API key, "" for none. Raises TurnFault."""
    reference = request.options.api_key
    try:
        return deferred_call.secret(reference) if reference else ""
    except LookupError as error:
        raise TurnFault(f"api_key cannot be read: {error.args[0]}") from error


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
            MemrelaySaver(self._deferred_call, request.alias, store=request.store)
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
            raise TurnFault("the model answered without text")
        return text

    async def prepare(self, messages: list[BaseMessage]) -> list[Any]:
        """Return the conversation as the model gets it, unless the turn has its answer already."""
        at = next(place for place, one in enumerate(messages) if one.id == self._deferred_call.id)
        # A tail without an answer is from an earlier attempt of this turn, which runs again.
        if messages[at + 1 :] and is_answer(messages[-1]):
            return []
        # The bundle may have lost its prompt since the last turn.
        asked = [one for one in messages[: at + 1] if self._request.prompt or one.id != PROMPT_ID]
        kept = await fit(asked, self._request.options, self._summarize)
        if kept == messages:
            return []
        return [RemoveMessage(id=REMOVE_ALL_MESSAGES), *kept]

    async def ask(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the next message of the model."""
        at = next(place for place, one in enumerate(messages) if one.id == self._deferred_call.id)
        step = sum(isinstance(one, AIMessage) for one in messages[at:])
        if step >= self._request.options.max_steps:
            raise TurnFault(
                f"the agent asked the model {step} times without an answer: raise max_steps, or "
                "improve the prompt"
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
            self._knowledge = await find_knowledge(
                self._request.options.knowledge, self._request.question, self._deferred_call.operate
            )
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
