"""Letta: agent files (`.af`), their older form, and passages as its API returns them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from memrelay.memory.transfer.importers.json_items import (
    begins_with,
    list_of,
    read_documents,
    read_list,
)
from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    LeftOut,
    Plain,
    SourceInput,
    SourceItem,
    Turn,
    fields_of,
    read_content,
    read_position,
    read_text,
    read_texts,
    read_time,
    source,
    without_empty,
)

NAME = "letta"
BLOCK_KIND = "block"
LISTS = ("agents", "blocks", "files", "messages", "passages")
NOTE = (
    "an agent file of Letta holds at most 50 messages of an agent and no passages of its archival "
    "memory. Get the rest through Letta's API: GET /v1/agents/AGENT_ID/archival-memory and "
    "GET /v1/agents/AGENT_ID/messages, save each answer as a file with the name of the agent, "
    "such as support.json, and import it"
)
# The texts in messages that the server writes for the user.
PACKAGED = ("message", "reason")
# Messages of the API that are turns, and their role.
API_ROLES = {"user_message": "user", "assistant_message": "assistant", "system_message": "system"}
BLOCK_FIELDS = ("description", "limit", "read_only", "metadata", "metadata_", "tags")
PASSAGE_FIELDS = ("metadata", "archive_id", "source_id", "file_id", "file_name", "agent_id")
Placed = tuple[str, Any]


def detect(path: Path) -> bool:
    return begins_with(
        path, "agents.block_ids", "core_memory", "text archive_id", "message_type date"
    )


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield blocks, messages and passages, and a fault for each file of the agents."""
    lists: dict[str, list[Placed]] = {key: [] for key in LISTS}
    name, has_agents = source_input.file.stem, False
    for position, value in read_documents(source_input.file, *LISTS):
        document = value if isinstance(value, dict) else {}
        if list_of(position):
            lists[list_of(position)].append((position, value))
        elif "core_memory" in document:
            has_agents = True
            # The items of the older form have no ids.
            agent_name = _agent_name(document)
            for place, block in read_list(document, "core_memory", position):
                yield _block(place, block, [agent_name])
            yield from _messages(agent_name, read_list(document, "messages", position))
        elif any(isinstance(document.get(key), list) for key in LISTS):
            name = str(document.get("agent") or name)
            for key in LISTS:
                lists[key].extend(read_list(document, key, position))
        else:
            yield from _answer(position, value, name)
    if has_agents or lists["agents"]:
        source_input.note(NOTE)
    yield from _from_lists(lists, name)


def _from_lists(lists: dict[str, list[Placed]], name: str) -> Iterator[SourceItem]:
    """Yield the items of an agent file, or of an answer of the API for the agent `name`."""
    agents = [(place, agent) for place, agent in lists["agents"] if isinstance(agent, dict)]
    for position, block in lists["blocks"]:
        ident = block.get("id") if isinstance(block, dict) else None
        users = [_agent_name(agent) for _, agent in agents if _has_block(agent, ident)]
        yield _block(position, block, users)
    for position, agent in agents:
        yield from _messages(_agent_name(agent), read_list(agent, "messages", position))
    names = {str(agent.get("id")): _agent_name(agent) for _, agent in agents}
    by_agent: dict[str, list[Placed]] = {}
    for position, message in lists["messages"]:
        owner = message.get("agent_id") if isinstance(message, dict) else None
        by_agent.setdefault(names.get(str(owner), name), []).append((position, message))
    for agent_name, messages in by_agent.items():
        yield from _messages(agent_name, messages)
    for position, passage in lists["passages"]:
        yield _passage(position, passage, name)
    for position, agent in lists["agents"]:
        if not isinstance(agent, dict):
            yield Fault(position, "the agent is not a JSON object")
    for position, file in lists["files"]:
        file_name = file.get("file_name") if isinstance(file, dict) else None
        yield Fault(position, f'the file "{str(file_name)[:80]}" is not imported')


def _has_block(agent: dict[str, Any], ident: object) -> bool:
    blocks = agent.get("block_ids")
    return isinstance(blocks, list) and ident in blocks


def _answer(position: str, value: object, name: str) -> Iterator[SourceItem]:
    """Yield an element of an answer of the API: a message or a passage."""
    if isinstance(value, Fault):
        yield value
    elif isinstance(value, dict) and "message_type" in value:
        yield from _messages(name, [(position, value)])
    else:
        yield _passage(position, value, name)


def _agent_name(agent: dict[str, Any]) -> str:
    return str(agent.get("name") or agent.get("id") or "agent")


def _block(position: str, value: object, agents: list[str]) -> SourceItem:
    try:
        fields = fields_of(value)
        label = read_content(fields, "label")
        return Plain(
            position=position,
            id=json.dumps([BLOCK_KIND, agents, label]),
            created_at=read_time(fields.get("created_at")),
            updated_at=read_time(fields.get("updated_at")),
            text=read_content(fields, "value"),
            kind=BLOCK_KIND,
            key=label,
            source=agents[0] if len(agents) == 1 else "",
            data={"agents": agents} | without_empty(fields, *BLOCK_FIELDS),
            in_context=True,
        )
    except LeftOut as error:
        return Fault(position, str(error))


def _messages(agent: str, messages: Iterable[Placed]) -> Iterator[SourceItem]:
    """Yield the turns of an agent. Fields identify a message: its id in a file is not lasting."""
    counts = Counter[str]()
    for number, (position, value) in enumerate(messages):
        try:
            turn = _turn(position, fields_of(value), agent, number)
        except LeftOut as error:
            yield Fault(position, str(error))
            continue
        counts[turn.id] += 1
        yield replace(turn, id=f"{turn.id} {counts[turn.id]}")


def _turn(position: str, fields: dict[str, Any], agent: str, number: int) -> Turn:
    """Return a message as a turn. Its id is not unique if the agent repeats a text."""
    role, fields = _role_of(fields)
    text, kind = _message_text(fields, role)
    if not text.strip():
        raise LeftOut("the message has no text")
    created_at = read_time(fields.get("created_at"))
    # The API gives times in seconds.
    second = None if created_at is None else created_at // 1000
    calls = [call["function"]["name"] for call in _calls(fields)]
    return Turn(
        position=position,
        id=json.dumps([agent, second, role, text]),
        created_at=created_at,
        text=text,
        thread=agent,
        seq=read_position(fields, number),
        source=role,
        data=({"type": kind} if kind else {})
        | ({"tools": calls} if calls else {})
        | without_empty(fields, "name", "model", "tool_call_id"),
    )


def _role_of(fields: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the role of a message, and its fields named as in an agent file."""
    if (kind := read_text(fields, "message_type")) == "":
        return read_text(fields, "role"), fields
    if kind not in API_ROLES:
        raise LeftOut(f"a message of the type {kind[:40]} is not imported")
    return API_ROLES[kind], fields | {"created_at": fields.get("date")}


def _message_text(fields: dict[str, Any], role: str) -> tuple[str, str]:
    """Return (text, type) of a message. The type is "" for what a person or a model wrote."""
    content = fields.get("content")
    if content is None:
        content = fields.get("text") or ""
    if isinstance(content, list):
        content = "".join(
            str(part.get("text") or "")
            for part in content
            if isinstance(part, dict) and part.get("type") == "text"
        )
    if not isinstance(content, str):
        raise LeftOut("`content` is neither a text nor a list of parts")
    if role == "user":
        return _unpack(content)
    # An agent that answers by a tool keeps its thoughts in the content.
    sent = [_sent_text(call) for call in _calls(fields) if role == "assistant"]
    return "\n".join(filter(None, sent)) or content, ""


def _unpack(content: str) -> tuple[str, str]:
    """Return (text, type) of a user's message, which the server packs into a JSON object."""
    try:
        packed = json.loads(content) if content.startswith("{") else None
    except ValueError:
        packed = None
    if isinstance(packed, dict) and isinstance(packed.get("type"), str) and "time" in packed:
        text = next((packed[key] for key in PACKAGED if isinstance(packed.get(key), str)), content)
        return text, "" if packed["type"] == "user_message" else packed["type"]
    return content, ""


def _calls(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tool calls of a message that name a function."""
    calls = fields.get("tool_calls")
    return [
        call
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict)
        and isinstance(call.get("function"), dict)
        and isinstance(call["function"].get("name"), str)
    ]


def _sent_text(call: dict[str, Any]) -> str:
    """Return the text that a call of `send_message` sends to the user, else ""."""
    if call["function"]["name"] != "send_message":
        return ""
    try:
        arguments = json.loads(call["function"].get("arguments") or "{}")
    except (ValueError, TypeError):
        return ""
    message = arguments.get("message") if isinstance(arguments, dict) else None
    return message if isinstance(message, str) else ""


def _passage(position: str, value: object, agent: str) -> SourceItem:
    try:
        fields = fields_of(value)
        created_at = read_time(fields.get("created_at"))
        updated_at = read_time(fields.get("updated_at"))
        if not (ident := read_text(fields, "id")):
            raise LeftOut("the passage has no `id`")
        return Fact(
            position=position,
            id=ident,
            created_at=created_at,
            updated_at=updated_at,
            deleted_at=updated_at or created_at if fields.get("is_deleted") is True else None,
            text=read_content(fields, "text"),
            memory=f"{NAME}/{agent}",
            tags=read_texts(fields, "tags"),
            data=without_empty(fields, *PASSAGE_FIELDS),
        )
    except LeftOut as error:
        return Fault(position, str(error))
