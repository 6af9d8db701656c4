"""Showing and replaying dead letters. The HTTP routes and the CLI share this."""

from base64 import b64encode
from typing import Any

from memrelay.bus.streams.entry import NewEntry
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter, Listed
from memrelay.memory.timestamps import as_time


class NoLetter(LookupError):
    """The dead letter does not exist."""

    def __init__(self, uid: str, ident: str) -> None:
        super().__init__(
            f"pipeline {uid[:100]!r} has no dead letter {ident[:100]!r}; it may have been replayed "
            "or dropped. `memrelay dlq ls` and GET /v1/dead-letters list dead letters"
        )


class NotReplayable(Exception):
    """The dead letter cannot run again. The text states the fix."""


async def letter_of(catalog: Catalog, uid: str, ident: str) -> DeadLetter:
    """Return a pipeline's dead letter. Raises NoLetter and StoreBusy."""
    letter = await catalog.letters.find(uid, ident)
    if letter is None:
        raise NoLetter(uid, ident)
    return letter


async def replay_of(catalog: Catalog, uid: str, ident: str) -> NewEntry:
    """Return the input entry that runs a dead letter again, under its id and the active bundle.

    The dead letter remains until the replay has succeeded, when the pipeline's owner deletes it.
    Appending the entry twice has one effect. Raises NoLetter, NotReplayable, and StoreBusy.
    """
    letter = await letter_of(catalog, uid, ident)
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
        published=bool(letter.heard),
        hop=letter.hop,
        replay_of=ident,
    )


def as_item(letter: Listed) -> dict[str, Any]:
    """Return a list item as JSON."""
    return _summarize(letter) | {"bytes": letter.size}


def as_whole(letter: DeadLetter) -> dict[str, Any]:
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
        "buried_at": as_time(letter.buried_at),
    }


def _encode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
