"""Claude: the conversations of a data export, as a zip file, folder or `conversations.json`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.chatgpt import has_conversations, read_documents
from memrelay.memory.transfer.importers.json_items import iterate
from memrelay.memory.transfer.importers.source import (
    Fault,
    LeftOut,
    SourceInput,
    SourceItem,
    Turn,
    fields_of,
    read_text,
    read_time,
    source,
    try_time,
)

NAME = "claude"
ROLES = {"human": "user", "assistant": "assistant"}
# Parts of a message that are reported.
PARTS = {
    "tool_use": "the use of a tool",
    "tool_result": "the result of a tool",
    "thinking": "a thought of the model",
}
# The field `text` of a message for such parts.
PLACEHOLDER = "This block is not supported on your current device"


def detect(path: Path) -> bool:
    return has_conversations(path, "chat_messages")


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the messages of user and assistant as turns."""
    for file, name in read_documents(source_input.file, "Claude"):
        for position, value in iterate(file, name, ("conversations",)):
            place = f"{name}{'' if position.startswith('[') else ' '}{position}"
            if isinstance(value, Fault):
                yield Fault(place, value.reason)
                continue
            try:
                yield from _conversation(fields_of(value), place)
            except LeftOut as error:
                yield Fault(place, str(error))


def _conversation(fields: dict[str, Any], place: str) -> Iterator[SourceItem]:
    """Yield the messages of a conversation. Raises LeftOut."""
    thread = read_text(fields, "uuid")
    if not thread:
        raise LeftOut("the conversation has no `uuid`")
    messages = fields.get("chat_messages")
    if not isinstance(messages, list):
        raise LeftOut("`chat_messages` is not a list")
    if not messages:
        raise LeftOut("the conversation has no messages")
    title = read_text(fields, "name")
    latest = try_time(fields, "created_at")
    for seq, number in enumerate(_in_order(messages)):
        message, where = messages[number], f"{place}, chat_messages[{number}]"
        time = try_time(message, "created_at")
        latest = time if seq == 0 or latest is None else max(latest, time or 0)
        latest = latest if latest is not None else try_time(fields, "created_at")
        try:
            yield from _turn(fields_of(message), where, (thread, seq, latest, title))
        except LeftOut as error:
            yield Fault(where, str(error))


def _in_order(messages: list[Any]) -> list[int]:
    """Return the indexes of messages by time. Equal times keep the order of the list.

    A message follows the message that it answers, whatever its time.
    """
    times: list[int] = []
    for message in messages:
        time = try_time(message, "created_at")
        times.append(time if time is not None else times[-1] if times else 0)
    indexes = list(range(len(messages)))
    if times[0] > times[-1]:
        indexes.reverse()
    indexes.sort(key=times.__getitem__)
    names = {_text_of(message, "uuid"): at for at, message in enumerate(messages)}
    ordered: dict[int, None] = {}
    for index in indexes:
        # Its ancestors first. A cycle ends at a message that is in the list already.
        chain: dict[int, None] = {}
        step: int | None = index
        while step is not None and step not in ordered and step not in chain:
            chain[step] = None
            step = names.get(_text_of(messages[step], "parent_message_uuid"))
        ordered |= dict.fromkeys(reversed(chain))
    return [*ordered]


def _text_of(message: object, key: str) -> str | None:
    value = message.get(key) if isinstance(message, dict) else None
    return value if isinstance(value, str) and value else None


def _turn(
    message: dict[str, Any], place: str, about: tuple[str, int, int | None, str]
) -> Iterator[SourceItem]:
    """Yield a message as a turn, after its parts that are no text. Raises LeftOut.

    `about` has the thread, the position in it, the time and the title of the conversation.
    """
    thread, seq, created_at, title = about
    sender = read_text(message, "sender")
    if sender not in ROLES:
        raise LeftOut(f"a message of the sender {sender[:40]!r} is not imported")
    read_time(message.get("created_at"))
    texts, others = _split(message)
    for where, reason in others:
        yield Fault(f"{place}, {where}", reason)
    text = "\n\n".join(texts)
    if not text:
        if others:
            return
        raise LeftOut("the text is empty")
    ident = read_text(message, "uuid") or f"{seq}\n{text}"
    yield Turn(
        position=place,
        id=f"{thread}\n{ident}",
        text=text,
        thread=thread,
        seq=seq,
        source=ROLES[sender],
        created_at=created_at,
        data={"title": title} if title else {},
    )


def _split(message: dict[str, Any]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the texts of a message and its attachments, and (place, reason) of other parts."""
    texts: list[str] = []
    others: list[tuple[str, str]] = []
    content = message.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        text = part.get("text") if isinstance(part, dict) else part
        if kind in ("text", None) and isinstance(text, str):
            texts.append(text)
        else:
            what = PARTS.get(str(kind)) or f"a part of the type {str(kind)[:40]!r}"
            others.append((f"content[{index}]", f"{what} is not imported"))
    if not any(text.strip() for text in texts):
        # Older exports have the text here only.
        whole = message.get("text")
        texts = [whole] if isinstance(whole, str) and PLACEHOLDER not in whole else []
    for index, attachment in enumerate(_list_in(message, "attachments")):
        text = attachment.get("extracted_content") if isinstance(attachment, dict) else None
        if isinstance(text, str) and text.strip():
            name = _text_of(attachment, "file_name")
            texts.append(f"{name}:\n{text}" if name else text)
        else:
            others.append((f"attachments[{index}]", "an attachment without text is not imported"))
    for index, _ in enumerate(_list_in(message, "files")):
        others.append((f"files[{index}]", "a file is not imported"))
    return [text for text in texts if text.strip()], others


def _list_in(message: dict[str, Any], key: str) -> list[Any]:
    value = message.get(key)
    return value if isinstance(value, list) else []
