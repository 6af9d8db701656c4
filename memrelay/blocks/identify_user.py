"""identify_user: find the user who speaks, and facts and history of the user (docs/agents.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.blocks.agent_memory_args import CHAT_ID, AgentMemoryArgs, find_chat
from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import (
    ANONYMOUS,
    MemoryId,
    find_speaker,
    make_context,
    parse_object,
    within_message,
)
from memrelay.blocks.registry import block
from memrelay.bus.message import PLAIN, Message
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.user_records import EMAIL, TELEGRAM
from memrelay.memory.models.agent_memory.users import UserContext, identify, user_context

WEBHOOK, CHAT, USER = "webhook", "chat", "user"
# The fields of a trigger with the id, by channel: the first one with an id counts.
ID_FIELDS = {WEBHOOK: ("user_id", "email"), EMAIL: ("email", "user_id")}
# The parts of an update of Telegram that a person has sent.
UPDATES = ("message", "edited_message", "callback_query")
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
    its part, for the agents that follow. By default these fields are the answer. Of a trigger with
    a text, such as an update of Telegram, the text is published, with the whole trigger in the
    field `trigger`. A chat that is not the user's own is the field `chat_id`."""


@dataclass(frozen=True, slots=True)
class Person:
    """The speaker, from the trigger or the envelope. The id is "" if there is none.

    `chat` is "" for the user's own chat. `text` is what the person said, None if the message is
    that already.
    """

    channel: str
    id: str = ""
    display_name: str = ""
    username: str = ""
    chat: str = ""
    text: str | None = None


@block("identify_user", IdentifyUserArgs)
def identify_user(call: Call, args: IdentifyUserArgs) -> Message:
    """Return `{user_id, user_context, is_new_user}`, and `chat_id` in a chat that is not the user's
    own. A message without an id has the user_id null. A failure is the field `error` of the
    context."""
    trigger = parse_object(call.text)
    person = _find_person(call, args.channel, trigger)
    fields = _identify(call, person)
    if person.chat:
        fields[CHAT_ID] = person.chat
    try:
        if args.forward and person.text is not None:
            return call.forward(**fields, text=person.text, type=PLAIN, trigger=trigger)
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
        if person.chat:
            # The history quotes conversations that the others of the chat were not part of.
            known = replace(known, history=())
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


def _find_person(call: Call, channel: str, trigger: Mapping[str, Any] | None) -> Person:
    """Return the speaker: from the trigger in the text, else from the envelope."""
    if trigger is None:
        speaker = find_speaker(call)
        return Person(channel or CHAT, speaker, call.message.speaker, chat=find_chat(call))
    inner = trigger.get("trigger_input")
    payload = inner if isinstance(inner, dict) else trigger
    channel = channel or _text(trigger.get("channel")) or _find_channel(payload)
    channel = channel.replace(":", "_")[:MAX_CHANNEL_CHARACTERS]
    update = _find_update(payload) if channel == TELEGRAM else {}
    if update:
        return _telegram_person(update, channel)
    fields = ID_FIELDS.get(channel, ("user_id",))
    ident = next(filter(None, (_as_id(payload.get(field)) for field in fields)), "")
    name, chat = _text(payload.get("user_name")) or _text(payload.get("name")), payload.get(CHAT_ID)
    said = payload.get("text")
    return Person(
        channel,
        ident,
        name,
        chat=_other_chat(chat, ident),
        text=said if isinstance(said, str) else None,
    )


def _telegram_person(update: Mapping[str, Any], channel: str) -> Person:
    """Return the sender of an update of Telegram, with the text of the message or its caption."""
    sender, message = update["from"], update
    if isinstance(update.get("message"), dict):  # a button was pressed below this message
        message = update["message"]
    chat = message.get("chat")
    ident = _as_id(sender.get("id"))
    names = [_text(sender.get(name)) for name in ("first_name", "last_name")]
    return Person(
        channel,
        ident,
        " ".join(filter(None, names)),
        _text(sender.get("username")),
        _other_chat(chat.get("id"), ident) if isinstance(chat, dict) else "",
        next(filter(None, (_text(update.get(key)) for key in ("text", "caption", "data"))), ""),
    )


def _other_chat(chat: object, user: str) -> str:
    """Return the id of a chat, "" for the chat with the user alone."""
    ident = _as_id(chat)
    return "" if ident == user else ident


def _find_channel(payload: Mapping[str, Any]) -> str:
    if _find_update(payload):
        return TELEGRAM
    if payload.get("webhook_id"):
        return WEBHOOK
    return _text(payload.get("channel")) or _text(payload.get("source")) or USER


def _find_update(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of an update of Telegram that a person has sent, {} if there is none."""
    updates = (payload.get(name) for name in UPDATES)
    sent = (one for one in updates if isinstance(one, dict) and isinstance(one.get("from"), dict))
    return next(sent, {})


def _as_id(value: object) -> str:
    """Return an id as text, "" for a placeholder or another type."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    text = str(value).strip()
    return "" if text in ANONYMOUS else text


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
