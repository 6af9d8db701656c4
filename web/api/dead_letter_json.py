"""Dead letters for those who look after them: how they are told and replayed, over HTTP and by
command alike."""

from base64 import b64encode
from typing import Any

from memrelay.bus.streams.entry import NewEntry
from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import DeadLetter, Listed
from memrelay.memory.timestamps import as_time


class NoLetter(LookupError):
    """There is no such dead letter."""

    def __init__(self, uid: str, ident: str) -> None:
        """The text says where they are listed."""
        super().__init__(
            f"pipeline {uid[:100]!r} has no dead letter {ident[:100]!r}: it was replayed or dropped, or "
            "never was; `memrelay dlq ls` and GET /v1/dead-letters list them"
        )


class NotReplayable(Exception):
    """It cannot be run as it was meant; the text has the remedy."""


async def letter_of(catalog: Catalog, uid: str, ident: str) -> DeadLetter:
    """A pipeline's dead letter. Raises NoLetter and StoreBusy."""
    letter = await catalog.letters.find(uid, ident)
    if letter is None:
        raise NoLetter(uid, ident)
    return letter


async def replay_of(catalog: Catalog, uid: str, ident: str) -> NewEntry:
    """What to append to the input so that a dead letter runs again, as it came, under its own id
    and today's bundle.

    The letter stays until its replay has gone through, and the pipeline's owner takes it away;
    appended twice, it has one
    effect. Raises NoLetter, NotReplayable and StoreBusy.
    """
    letter = await letter_of(catalog, uid, ident)
    if await catalog.serving(uid) is None:
        raise NotReplayable(
            f"pipeline {uid} is not in service any more; deploy it with that uid, and replay then, or drop the "
            "dead letter"
        )
    if not letter.swarm and not letter.agent:
        raise NotReplayable(
            "this was a call, or names neither a swarm nor an agent: who called was told that it failed, and "
            "may call again; drop it"
        )
    if "." in ident and not letter.agent:
        raise NotReplayable(
            "an older version kept this step of a cascade without the agent that it was for; drop it, and say "
            "again by hand what it holds"
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
    """One of a list, in JSON."""
    return _in_short(letter) | {"bytes": letter.size}


def as_whole(letter: DeadLetter) -> dict[str, Any]:
    """The same with all else that came, and `data`: what was said, as text where it is UTF-8, else
    in base64; `encoding` says
    which."""
    text, encoding = _as_text(letter.data)
    return _in_short(letter) | {
        "bytes": len(letter.data),
        "producer_id": letter.producer_id,
        "hop": letter.hop,
        "encoding": encoding,
        "data": text,
    }


def _in_short(letter: Listed | DeadLetter) -> dict[str, Any]:
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


def _as_text(data: bytes) -> tuple[str, str]:
    try:
        return data.decode(), "utf-8"
    except UnicodeDecodeError:
        return b64encode(data).decode(), "base64"
