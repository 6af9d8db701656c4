"""Redis agent-memory-server: long-term memories and working memories, as JSON or over its API."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.json_items import (
    begins_with,
    list_of,
    place_in,
    read_documents,
    read_list,
)
from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    LeftOut,
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

NAME = "redis-ams"
# Parts of a working memory without an equivalent.
NOT_IMPORTED = {"context": "summary", "data": "data"}
# The fields of a memory that have no field of their own in an entry. Left out are fields that the
# server changes with each search, since a repeated import would differ.
FURTHER = (
    *("session_id", "namespace", "memory_type", "entities", "event_date", "extracted_from"),
    *("extraction_strategy", "extraction_strategy_config"),
)
# The server writes messages as `role: text`.
SPEAKER = re.compile(r"(user|assistant|system|tool): ")


def detect(path: Path) -> bool:
    return begins_with(
        path, "memories memory_type", "text memory_type", "messages long_term_memory_strategy"
    )


@source(NAME, detect, has_url=True)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the memories and messages of a file, or of the answers of the API."""
    if source_input.pages is None:
        for position, value in read_documents(source_input.file, "memories", "messages"):
            yield from _read_value(position, value)
        return
    for number, page in enumerate(source_input.pages(), 1):
        yield from _read_value(f"answer {number}", page)


def _read_value(position: str, value: Any) -> Iterator[SourceItem]:
    if isinstance(value, Fault):
        yield value
    elif isinstance(value, dict) and ("memories" in value or "messages" in value):
        yield from _read_answer(position, value)
    elif list_of(position) == "messages":
        yield Fault(position, "a working memory of more than 64 MiB is not imported; split it")
    else:
        yield _memory(position, value, {})


def _read_answer(position: str, answer: dict[str, Any]) -> Iterator[SourceItem]:
    """Yield the items of the answer to a search, or of a working memory."""
    for number, (place, value) in enumerate(read_list(answer, "messages", position)):
        yield _message(place, value, answer, number)
    for place, value in read_list(answer, "memories", position):
        yield _memory(place, value, answer)
    for key, what in NOT_IMPORTED.items():
        if answer.get(key):
            yield Fault(place_in(position, key), f"the {what} of a session is not imported")


def _memory(position: str, value: object, session: dict[str, Any]) -> SourceItem:
    try:
        own = {key: one for key, one in fields_of(value).items() if one is not None}
        fields = without_empty(session, "session_id", "user_id", "namespace") | own
        kind = read_text(fields, "memory_type")
        if kind not in ("", "message", "semantic", "episodic"):
            raise LeftOut(f'the memory type "{kind[:40]}" is unknown')
        make = _to_turn if kind == "message" else _to_fact
        return make(position, fields)
    except LeftOut as error:
        return Fault(position, str(error))


def _to_fact(position: str, fields: dict[str, Any]) -> Fact:
    user, namespace = read_text(fields, "user_id"), read_text(fields, "namespace")
    return Fact(
        position=position,
        id=_identity(fields),
        created_at=read_time(fields.get("created_at")),
        updated_at=read_time(fields.get("updated_at")),
        text=read_content(fields, "text"),
        memory=f"{NAME}/{user or namespace or 'default'}",
        owner=user or None,
        thread=read_text(fields, "session_id") or None,
        tags=read_texts(fields, "topics"),
        data=without_empty(fields, *FURTHER),
        in_context=fields.get("pinned") is True,
    )


def _to_turn(position: str, fields: dict[str, Any]) -> Turn:
    thread = read_text(fields, "session_id")
    if not thread:
        raise LeftOut("a message needs a `session_id`")
    text = read_content(fields, "text")
    speaker = SPEAKER.match(text)
    return Turn(
        position=position,
        id=_identity(fields),
        created_at=read_time(fields.get("created_at")),
        updated_at=read_time(fields.get("updated_at")),
        text=text,
        source="" if speaker is None else speaker[1],
        thread=thread,
        seq=read_position(fields, 0),
        owner=read_text(fields, "user_id") or None,
        tags=read_texts(fields, "topics"),
        data=without_empty(fields, *FURTHER),
        in_context=fields.get("pinned") is True,
    )


def _message(position: str, value: object, session: dict[str, Any], number: int) -> SourceItem:
    try:
        fields, thread = fields_of(value), read_text(session, "session_id")
        if not thread:
            raise LeftOut("the working memory has no `session_id`")
        return Turn(
            position=position,
            id=_identity(fields),
            created_at=read_time(fields.get("created_at")),
            text=read_content(fields, "content"),
            thread=thread,
            seq=read_position(fields, number),
            source=read_text(fields, "role"),
            owner=read_text(session, "user_id") or None,
            data=without_empty(session, "namespace"),
        )
    except LeftOut as error:
        return Fault(position, str(error))


def _identity(fields: dict[str, Any]) -> str:
    ident = read_text(fields, "id") or read_text(fields, "id_")
    if not ident:
        raise LeftOut("it has no `id`")
    return ident
