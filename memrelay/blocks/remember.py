"""remember: store a fact under a key (docs/agents.md)."""

from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from memrelay.blocks.agent_memory_args import AgentMemoryArgs, make_ids
from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import make_context, naming_call, parse_object
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import PolicyStop, RecordDamaged, Refused
from memrelay.memory.models.agent_memory.facts import (
    DEFAULT_TYPE,
    SetFact,
    check_key,
    set_fact,
    value_text,
)
from memrelay.memory.models.agent_memory.scopes import GLOBAL, GivenId

NO_KEY, NO_VALUE = "Error: key is required", "Error: value is required"


class RememberArgs(AgentMemoryArgs):
    """The text is `key = value`, or `{"key": ..., "value": ..., "fact_type": ...}` with any JSON
    value."""

    fact_type: Literal[
        "user_preference", "world_knowledge", "self_knowledge", "correction", "relationship"
    ] = DEFAULT_TYPE
    """The type of a fact whose text names none."""
    overwrite: bool = True
    """Whether to replace the value of an existing fact."""
    scope: Literal["session", "user", "agent", "global"] = GLOBAL
    """The scope of the fact. `user` and `session` need the field `user_id` or `session_id`, which
    only blocks of the pipeline and trusted ingresses can set."""
    agent_id: GivenId = GLOBAL
    """The agent of the scope `agent`."""


class _NewFact(NamedTuple):
    key: str
    value: Any
    fact_type: Any


@block("remember", RememberArgs)
def remember(call: Call, args: RememberArgs) -> Message:
    """Return `Remembered: {key} = {value}` with created, updated or skipped."""
    fact = _parse(call.text)
    if not isinstance(fact.key, str) or not fact.key.strip():
        return call.reply(NO_KEY)
    if fact.value is None or fact.value == "":
        return call.reply(NO_VALUE)
    try:
        return call.reply(_store(call, args, fact))
    except PolicyStop:
        raise
    except (Refused, RecordDamaged) as error:
        return call.reply(f"Error writing memory: {error}")


def _store(call: Call, args: RememberArgs, fact: _NewFact) -> str:
    """Store a fact and return the answer. Raises Refused."""
    key = fact.key.strip()
    check_key(key)
    new = SetFact(
        key,
        fact.value,
        fact.fact_type if isinstance(fact.fact_type, str) else args.fact_type,
        args.scope,
        *make_ids(call, args.agent_id),
        overwrite=args.overwrite,
    )
    with naming_call("facts.set", lambda: asdict(new)):
        written = set_fact(call.tx, new, make_context(call))
    return f"Remembered: {key} = {value_text(written.fact.value)} ({written.action})"


def _parse(text: str) -> _NewFact:
    """Return the fields that a text states."""
    fields = parse_object(text)
    if fields is not None:
        return _NewFact(fields.get("key", ""), fields.get("value"), fields.get("fact_type") or None)
    key, _, value = text.partition("=")
    return _NewFact(key.strip(), value.strip(), None)
