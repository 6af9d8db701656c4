"""identify_user: finds the user who speaks, and facts and history of the user (docs/agents.md)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from memrelay.blocks.agent_memory_args import AgentMemoryArgs
from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import MemoryId, make_context, parse_object, within_message
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.user_records import EMAIL, TELEGRAM
from memrelay.memory.models.agent_memory.users import UserContext, identify, user_context

WEBHOOK, CHAT, USER = "webhook", "chat", "user"
# The fields of a trigger with the id, by channel: the first one with an id counts.
ID_FIELDS = {WEBHOOK: ("user_id", "email"), EMAIL: ("email", "user_id")}
# Placeholders that clients send in place of an id.
NO_IDS = frozenset({"", "unknown", "anonymous", "manual_user"})
MAX_CHANNEL_CHARACTERS = 64


class IdentifyUserArgs(AgentMemoryArgs):
    """A text that is a JSON object is a trigger, such as an update of Telegram. For any other text,
    the user is the speaker, in the channel `chat`."""

    memory_id: MemoryId = ""
    """Path of the store. By default the built-in store `instances/${pipeline_uid}/memories`."""
    channel: Annotated[str, Field(max_length=MAX_CHANNEL_CHARACTERS, pattern="^[^:]*$")] = ""
    """The channel, such as telegram or webhook. By default it follows from the trigger."""
    forward: bool = False
    """Whether to publish the message itself, with `user_id`, `user_context` and `is_new_user` in
    its part, for the agents that follow. By default these fields are the answer."""


class Person(NamedTuple):
    """The speaker, from the trigger or the envelope. The id is "" if there is none."""

    channel: str
    id: str = ""
    display_name: str = ""
    username: str = ""


@block("identify_user", IdentifyUserArgs)
def identify_user(call: Call, args: IdentifyUserArgs) -> Message:
    """Return `{user_id, user_context, is_new_user}`. A message without an id has the user_id null.
    A failure is the field `error` of the context."""
    person = _find_person(call, args.channel)
    fields = _identify(call, person)
    try:
        if args.forward:
            return call.forward(**fields)
        return within_message(call, call.reply_json(fields))
    except (Refused, ValueError) as error:
        return call.reply_json(_unknown(person.channel, str(error)))


def _identify(call: Call, person: Person) -> dict[str, Any]:
    """Return the fields of the answer. An id that is not valid is answered as an unknown user."""
    if not person.id:
        return _unknown(person.channel)
    context = make_context(call)
    names = (person.display_name, person.username)
    try:
        found = identify(call.tx, person.channel, person.id, context, names)
        user_id, is_new = found.user.canonical_id, found.is_new_user
        known = user_context(call.tx, user_id, is_new=is_new)
    except Refused as error:
        return _unknown(person.channel, str(error))
    return _fields(replace(known, channel=person.channel))


def _unknown(channel: str, error: str = "") -> dict[str, Any]:
    fields = _fields(UserContext(None, True, channel=channel))
    if error:
        fields["user_context"]["error"] = error
    return fields


def _fields(user: UserContext) -> dict[str, Any]:
    context = orjson.loads(orjson.dumps(user))
    return {
        "user_id": user.user_id,
        "user_context": context,
        "is_new_user": user.is_new,
    }


def _find_person(call: Call, channel: str) -> Person:
    """Return the speaker: from the trigger in the text, else from the envelope."""
    trigger = parse_object(call.text)
    if trigger is None:
        return Person(channel or CHAT, _as_id(call.message.speaker), call.message.speaker)
    inner = trigger.get("trigger_input")
    payload = inner if isinstance(inner, dict) else trigger
    channel = channel or _text(trigger.get("channel")) or _find_channel(payload)
    channel = channel.replace(":", "_")[:MAX_CHANNEL_CHARACTERS]
    sender = _find_sender(payload) if channel == TELEGRAM else {}
    if sender:
        name = f"{_text(sender.get('first_name'))} {_text(sender.get('last_name'))}".strip()
        return Person(channel, _as_id(sender.get("id")), name, _text(sender.get("username")))
    fields = ID_FIELDS.get(channel, ("user_id",))
    ident = next(filter(None, (_as_id(payload.get(field)) for field in fields)), "")
    return Person(channel, ident, _text(payload.get("user_name")) or _text(payload.get("name")))


def _find_channel(payload: Mapping[str, Any]) -> str:
    if _find_sender(payload):
        return TELEGRAM
    if payload.get("webhook_id"):
        return WEBHOOK
    return _text(payload.get("channel")) or _text(payload.get("source")) or USER


def _find_sender(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sender of an update of Telegram, {} if there is none."""
    message = payload.get("message")
    sender = message.get("from") if isinstance(message, dict) else None
    return sender if isinstance(sender, dict) else {}


def _as_id(value: object) -> str:
    """Return an id as text, "" for a placeholder or another type."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    text = str(value).strip()
    return "" if text in NO_IDS else text


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
