"""Showing and replaying dead letters. The HTTP routes and the CLI share this."""

from base64 import b64encode
from typing import Any

from memrelay.bus.streams.entry import NewEntry
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter, Listed
from memrelay.memory.engine.timestamps import format_time


class NoDeadLetter(LookupError):
    """The dead letter does not exist."""

    def __init__(self, uid: str, ident: str) -> None:
        super().__init__(
            f"pipeline {uid[:100]!r} has no dead letter {ident[:100]!r}; it may have been replayed "
            "or dropped. `memrelay dlq ls` and GET /v1/dead-letters list dead letters"
        )


class NotReplayable(Exception):
    """The dead letter cannot run again. The text states the fix."""


async def find_dead_letter(catalog: Catalog, uid: str, ident: str) -> DeadLetter:
    """Return a pipeline's dead letter. Raises NoDeadLetter and StoreBusy."""
    letter = await catalog.letters.find(uid, ident)
    if letter is None:
        raise NoDeadLetter(uid, ident)
    return letter


async def make_replay_entry(catalog: Catalog, uid: str, ident: str) -> NewEntry:
    """Return the input entry that runs a dead letter again, under its id and the active bundle.

    The dead letter remains until the replay has succeeded, when the pipeline's owner deletes it.
    Appending the entry twice has one effect. Raises NoDeadLetter, NotReplayable, and StoreBusy.
    """
    letter = await find_dead_letter(catalog, uid, ident)
    if await catalog.serving(uid) is None:
        raise NotReplayable(
            f"pipeline {uid} is not active; deploy it with that uid and then replay, or drop the "
            "dead letter"
        )
    if not letter.swarm and not letter.agent:
        raise NotReplayable(
            "this is a call, or names neither a swarm nor an agent; its caller got an error and "
            "may call again. Drop the dead letter"
        )
    if not letter.data:
        raise NotReplayable("this dead letter has no message; drop it, and send the message again")
    if "." in ident and not letter.agent:
        raise NotReplayable(
            "an older version stored this cascade step without its agent; drop it and send its "
            "content again"
        )
    return NewEntry(
        uid,
        letter.data,
        letter.swarm,
        letter.agent,
        letter.producer_id,
        published=bool(letter.published),
        hop=letter.hop,
        replay_of=ident,
    )


def to_item(letter: Listed) -> dict[str, Any]:
    """Return a list item as JSON."""
    return _summarize(letter) | {"bytes": letter.size}


def to_detail(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter with all fields as JSON.

    `data` is text if the message is UTF-8, otherwise base64. `encoding` states which.
    """
    text, encoding = _encode(letter.data)
    return _summarize(letter) | {
        "bytes": len(letter.data),
        "producer_id": letter.producer_id,
        "hop": letter.hop,
        "encoding": encoding,
        "data": text,
    }


def _summarize(letter: Listed | DeadLetter) -> dict[str, Any]:
    return {
        "pipeline_uid": letter.pipeline,
        "id": letter.id,
        "swarm": letter.swarm,
        "agent": letter.agent,
        "error": letter.error,
        "attempts": letter.attempts,
        "bundle": letter.bundle,
        "buried_at": format_time(letter.buried_at),
    }


def _encode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
