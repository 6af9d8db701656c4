"""Showing and replaying dead letters. The HTTP routes and the CLI share this."""

from base64 import b64encode
from typing import Any

from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.via import parse_via
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
    dead_letter = await catalog.dead_letters.find(uid, ident)
    if dead_letter is None:
        raise NoDeadLetter(uid, ident)
    return dead_letter


async def make_replay_entry(catalog: Catalog, uid: str, ident: str) -> NewEntry:
    """Return the input entry that runs a dead letter again, under its id and the active bundle.

    The dead letter remains until the replay has succeeded, when the pipeline's owner deletes it.
    Appending the entry twice has one effect. Raises NoDeadLetter, NotReplayable, and StoreBusy.
    """
    dead_letter = await find_dead_letter(catalog, uid, ident)
    if await catalog.serving(uid) is None:
        raise NotReplayable(
            f"pipeline {uid} is not active; deploy it with that uid and then replay, or drop the "
            "dead letter"
        )
    if not dead_letter.swarm and not dead_letter.agent:
        raise NotReplayable(
            "this is a call, or names neither a swarm nor an agent; its caller got an error and "
            "may call again. Drop the dead letter"
        )
    if not dead_letter.data:
        raise NotReplayable("this dead letter has no message; drop it, and send the message again")
    if "." in ident and not dead_letter.agent:
        raise NotReplayable(
            "an older version stored this cascade step without its agent; drop it and send its "
            "content again"
        )
    return NewEntry(
        uid,
        dead_letter.data,
        dead_letter.swarm,
        dead_letter.agent,
        dead_letter.producer_id,
        published=bool(dead_letter.published),
        hop=dead_letter.hop,
        replay_of=ident,
        traceparent=dead_letter.traceparent,
        via=parse_via(dead_letter.via),
    )


def to_item(dead_letter: Listed) -> dict[str, Any]:
    """Return a list item as JSON."""
    return _summarize(dead_letter) | {"bytes": dead_letter.size}


def to_detail(dead_letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter with all fields as JSON.

    `data` is text if the message is UTF-8, otherwise base64. `encoding` states which.
    """
    text, encoding = _encode(dead_letter.data)
    return _summarize(dead_letter) | {
        "bytes": len(dead_letter.data),
        "producer_id": dead_letter.producer_id,
        "hop": dead_letter.hop,
        "encoding": encoding,
        "data": text,
    }


def _summarize(dead_letter: Listed | DeadLetter) -> dict[str, Any]:
    return {
        "pipeline_uid": dead_letter.pipeline,
        "id": dead_letter.id,
        "swarm": dead_letter.swarm,
        "agent": dead_letter.agent,
        "error": dead_letter.error,
        "attempts": dead_letter.attempts,
        "bundle": dead_letter.bundle,
        "buried_at": format_time(dead_letter.failed_at),
    }


def _encode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
