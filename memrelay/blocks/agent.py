"""agent: let a model answer, with tools and a memory of the conversation (docs/agents.md)."""

from collections.abc import Mapping
from functools import cached_property
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import orjson
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from memrelay.blocks.agent_memory_args import AgentMemoryArgs, find_chat
from memrelay.blocks.contract import Call, DeferredCall, Got, SecretReference
from memrelay.blocks.memory_args import (
    USER_CONTEXT,
    USER_ID,
    MemoryId,
    find_speaker,
    find_timezone,
    make_context,
)
from memrelay.blocks.model_url import Url
from memrelay.blocks.registry import block
from memrelay.blocks.templates import PromptTemplate
from memrelay.bus.message import Message
from memrelay.installation import install_extra
from memrelay.memory.field_descriptions import DescribedModel
from memrelay.memory.models.agent_memory.checkpoint_table import CheckpointTable, prune_thread
from memrelay.memory.models.agent_memory.conversations import (
    input_thread,
    thread_name,
    turn_thread,
    user_of_speaker,
)
from memrelay.memory.models.agent_memory.episodes import (
    CompletedEpisode,
    NewEpisode,
    NewStep,
    begin_episode,
    complete_episode,
)
from memrelay.memory.models.named_memories.knowledge import MemoryIds, MemoryTags
from memrelay.memory.models.named_memories.memories import Ident

SESSION_ID = "session_id"
# Other names of tools, as Pipelit calls the nodes that provide them.
TOOL_NAMES = {"memory_read": "recall", "memory_write": "remember"}
MISSING_EXTRA = f"the block agent needs LangGraph: {install_extra('agents')}"
NO_TEXT = "the message has no text for the model"
# The code of a fault without a code of its own, in the episode of a turn.
FAILED = "failed"
# Arguments that the turn does not need.
OF_THE_BLOCK = {"memory_id", "system_prompt", "prompt_prefix", "record_episodes", "workflow_id"}

Tool = Literal["recall", "remember", "records_search", "knowledge_search"]


def _parse_tools(value: Any) -> Any:
    """Return the names of tools. A string lists them with commas or as JSON."""
    if isinstance(value, str):
        text = value.strip()
        value = orjson.loads(text) if text.startswith("[") else text.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError('tools are an array of names like ["recall", "remember"]')
    names = [one.strip() for one in value if one.strip()]
    return tuple(dict.fromkeys(TOOL_NAMES.get(name, name) for name in names))


def _check_template(source: str) -> str:
    PromptTemplate(source)
    return source


Tools = Annotated[
    tuple[Tool, ...], BeforeValidator(_parse_tools, json_schema_input_type=tuple[str, ...] | str)
]
Prompt = Annotated[
    str, AfterValidator(_check_template), Field(json_schema_extra={"format": "template"})
]
Percent = Annotated[int, Field(ge=1, le=100)]
Count = Annotated[int, Field(ge=1)]


class Knowledge(DescribedModel):
    """The named memories that an agent reads and writes (seed 004, "Agent Integration")."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory_ids: MemoryIds | None = None
    """Ids of memories to search before each answer."""
    memory_tags: MemoryTags | None = None
    """Also search memories with a tag that matches one of these; `*` is any text."""
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    """Minimum score of an entry; 0.4 by default."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Maximum number of entries."""
    token_budget: Annotated[int, Field(ge=1, le=1_000_000)] = 2000
    """Maximum length of the retrieved text, in tokens."""
    write_memory_id: Ident | None = None
    """The memory to which the tool `write_memory` writes."""


class AgentArgs(AgentMemoryArgs):
    """The model, its tools and its memory."""

    memory_id: MemoryId = ""
    """Store of conversations, episodes and facts; the pipeline's `memories` by default."""
    url: Url
    """Base URL of an OpenAI-compatible API, or the URL of its `/chat/completions`."""
    model: Annotated[str, Field(min_length=1)]
    """The server's name for the model."""
    api_key: SecretReference = ""
    """Place of the API key, `env:NAME` or `file:NAME`, which `outgoing.secrets` must list for the
    host of the URL, or `agents.secrets` for any host."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """The model's temperature."""
    max_tokens: Count | None = None
    """Maximum length of one answer of the model, in tokens."""
    system_prompt: Prompt = ""
    """The instructions. `{{ user_context }}` is replaced by what `identify_user` found."""
    prompt_prefix: str = ""
    """Text before each message of the user."""
    tools: Tools = ()
    """Any of `recall` (or `memory_read`), `remember` (or `memory_write`), `records_search`,
    `knowledge_search`."""
    conversation_memory: bool = False
    """Whether the model sees the earlier messages of the same user, chat and workflow."""
    record_episodes: bool = True
    """Whether each turn is stored as an episode."""
    workflow_id: str = ""
    """Name of the workflow in threads and episodes; the pipeline's uid by default."""
    context_window: Count | None = None
    """Tokens that the model accepts; by default known by the model's name, or 128,000."""
    compacting: Literal["none", "summarize"] = "none"
    """`summarize` replaces old turns by a summary of the model; `none` drops them."""
    compacting_trigger: Percent = 70
    """Percentage of the window from which on old turns are summarized."""
    compacting_keep: Count = 20
    """Messages that a summary leaves as they are, rounded up to whole turns."""
    keep_checkpoints: Count = 10
    """Checkpoints that a thread keeps."""
    max_steps: Annotated[int, Field(ge=1, le=100)] = 16
    """Maximum number of requests to the model for one message."""
    knowledge_config: Knowledge | None = None
    """Named memories to search before each answer, and one to write to."""

    @field_validator("knowledge_config", mode="before")
    @classmethod
    def _is_an_object(cls, value: Any) -> Any:
        return orjson.loads(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_its_packages(self) -> Self:
        if not is_installed():
            raise ValueError(MISSING_EXTRA)
        return self

    @property
    def secret_hosts(self) -> dict[str, str]:
        """Return the host that gets the API key."""
        return {self.api_key: urlsplit(self.url).hostname or ""} if self.api_key else {}

    @property
    def embeds(self) -> bool:
        """Return whether the model may search records by meaning."""
        return "records_search" in self.tools

    @cached_property
    def prompt(self) -> PromptTemplate:
        return PromptTemplate(self.system_prompt)

    @cached_property
    def for_turn(self) -> dict[str, Any]:
        """Return the arguments that a turn needs, as JSON values."""
        return self.model_dump(mode="json", exclude=OF_THE_BLOCK)


def is_installed() -> bool:
    """Return whether the packages of the extra `agents` are installed. None of them is loaded."""
    try:
        return find_spec("langgraph.graph") is not None
    except ModuleNotFoundError:
        return False


@block("agent", AgentArgs, deferred_call="memrelay.agents.turn:run_turn")
def agent(call: Call, args: AgentArgs) -> Message | DeferredCall:
    """Return the model's answer, or `{"error": ...}`. Turns of one conversation run in order."""
    if call.got is not None:
        return _answer(call, call.got, args)
    if not call.text.strip():
        return call.error(NO_TEXT)
    user, part, execution = _find_user(call), call.part, call.next_deferred_call_id
    workflow = args.workflow_id or call.agent.pipeline
    thread = _stored_thread(call, args) or input_thread(execution, call.agent.alias)
    request = {
        "text": args.prompt_prefix + call.text,
        "question": call.text,
        "asked_at_ms": call.now_ms,
        "prompt": args.prompt.render(_fenced(part.get(USER_CONTEXT), call.message.vouched)),
        "store": args.store,
        "alias": call.agent.alias,
        "thread": thread,
        "is_remembered": args.conversation_memory and bool(user),
        "agent_id": f"workflow:{workflow}",
        "user_id": user,
        "timezone": find_timezone(call),
        "session_id": str(part.get(SESSION_ID) or ""),
        "chat_id": find_chat(call),
        "options": args.for_turn,
    }
    if args.record_episodes:
        begin_episode(call.tx, _new_episode(call, args, execution), make_context(call))
    return DeferredCall(request, order=thread)


def _answer(call: Call, got: Got, args: AgentArgs) -> Message:
    """Return the answer of a turn that has ended, complete its episode, and delete its committed
    responses."""
    outcome: Mapping[str, Any] = got.value
    if got.error:
        outcome = {"error": got.error, "error_code": got.code}
    alias, thread = call.agent.alias, _stored_thread(call, args)
    call.tx.table(CheckpointTable).delete_thread(alias, turn_thread(got.deferred_call_id))
    if args.conversation_memory and thread:
        prune_thread(call.tx.table(CheckpointTable), alias, thread, args.keep_checkpoints)
    if args.record_episodes:
        _complete(call, args, outcome)
    if fault := outcome.get("error"):
        return call.error(fault)
    return call.reply(outcome["text"])


def _new_episode(call: Call, args: AgentArgs, execution: str) -> NewEpisode:
    user, workflow = _find_user(call), args.workflow_id or call.agent.pipeline
    return NewEpisode(
        f"workflow:{workflow}",
        execution,
        user,
        str(call.part.get(SESSION_ID) or execution),
        workflow,
        trigger_type=user.partition(":")[0] or "manual",
        trigger_input=call.text,
    )


def _complete(call: Call, args: AgentArgs, outcome: Mapping[str, Any]) -> None:
    """End the episode of a turn. One that was deleted since begins again."""
    context = make_context(call, outcome.get("ended_at_ms"))
    guid = begin_episode(call.tx, _new_episode(call, args, call.deferred_call_id), context)
    fault, text = outcome.get("error", ""), outcome.get("text")
    steps = [NewStep(text=call.text, role="user")]
    steps += [
        NewStep("action", tool=action["tool"], result=action["result"])
        for action in outcome.get("actions", ())
    ]
    steps += [NewStep(text=text, role="assistant")] if text else []
    code = (outcome.get("error_code") or FAILED) if fault else ""
    ended = CompletedEpisode(
        guid,
        not fault,
        text or {"error": fault},
        tuple(steps),
        error_code=code,
        error_message=fault,
    )
    complete_episode(call.tx, ended, context)


def _stored_thread(call: Call, args: AgentArgs) -> str:
    """Return the thread of the user of a message; "" without a user."""
    user, chat = _find_user(call), find_chat(call)
    return thread_name(user, chat, args.workflow_id or call.agent.pipeline) if user else ""


def _find_user(call: Call) -> str:
    """Return the user of a message, `channel:id`; "" if it has none.

    A message that another agent wrote has no user, since its speaker is that agent. Neither has a
    message of a caller without a name.
    """
    message = call.message
    if USER_ID in message.vouched:
        named = call.part.get(USER_ID)
        return named if isinstance(named, str) else ""
    speaker = find_speaker(call)
    return "" if speaker in call.agent.programs or not speaker else user_of_speaker(speaker)


def _fenced(context: object, vouched: tuple[str, ...]) -> str:
    """Return the context of a user as JSON in a fence, "" if no block of the pipeline found one.

    `<` is escaped, so that no value can end the fence.
    """
    if not isinstance(context, dict) or USER_ID not in vouched:
        return ""
    text = orjson.dumps(context).decode().replace("<", "\\u003c")
    return f"<user_context>\n{text}\n</user_context>"
