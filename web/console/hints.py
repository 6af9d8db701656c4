"""What to try from a shell, with the right names filled in."""

import json
from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple
from urllib.parse import quote as quote_url

from memrelay.bus.keys import input_key, swarm_key
from memrelay.pipelines.commands import Command

MEMRELAY = ".venv/bin/memrelay"
WRITING, READING, TALK = "/write The meeting is at 3pm", "/read", "hello"


class Hint(NamedTuple):
    """Something to try."""

    what: str
    line: str


class SwarmAddress(NamedTuple):
    """Where something is said."""

    url: str  # of this server
    bus: str  # its name, as the settings give it
    uid: str
    swarm: str
    home: str  # whose the swarm is, in its key

    @property
    def path(self) -> str:
        """Where the swarm's messages are."""
        return f"/v1/pipelines/{self.uid}/swarms/{quote_url(self.swarm, safe='')}/messages"


class Hints(NamedTuple):
    """By the program with which they are tried."""

    curl: list[Hint]
    memrelay: list[Hint]
    redis: list[Hint]


def hints_for(place: SwarmAddress, commands: Sequence[Command]) -> Hints:
    """For a pipeline and one of its swarms."""
    words = [command.word for command in commands]
    first = WRITING if "/write" in words else words[0] if words else TALK
    second = READING if READING in words else first
    return Hints(
        _with_curl(place, first), _with_memrelay(place, first), _with_redis(place, first, second)
    )


def _with_curl(place: SwarmAddress, text: str) -> list[Hint]:
    messages = place.url + place.path
    return [
        Hint(
            "Say something, and wait for what comes of it",
            f"curl {quote(messages + '?wait=5')} -d {_json({'text': text})}",
        ),
        Hint("What was said last", f"curl {quote(messages + '?order=desc&limit=5')}"),
    ]


def _with_memrelay(place: SwarmAddress, text: str) -> list[Hint]:
    on = "" if place.swarm == "chat" else f" --swarm {quote(place.swarm)}"
    return [
        Hint("Say something", f"{MEMRELAY} say {place.uid} {quote(text)}{on}"),
        Hint("Talk", f"{MEMRELAY} chat {place.uid}{on}"),
        Hint("Listen", f"{MEMRELAY} tail {place.uid}"),
    ]


def _with_redis(place: SwarmAddress, first: str, second: str) -> list[Hint]:
    client, channel = _redis_cli(place.bus), quote(swarm_key(place.home, place.swarm))
    return [
        Hint("Listen", f"{client} SUBSCRIBE {channel}"),
        Hint(
            "Say something, if a worker listens", f"{client} PUBLISH {channel} {_envelope(first)}"
        ),
        Hint(
            "Say something, even if none does",
            f"{client} XADD {quote(input_key(place.uid))} '*' swarm {quote(place.swarm)} data {_envelope(second)}",
        ),
    ]


def _redis_cli(bus: str) -> str:
    path = bus.removeprefix("unix://")
    if path.startswith("/"):
        return f"redis-cli -s {quote(path)}"
    return f"redis-cli -u {quote(bus if '://' in bus else f'redis://{bus}')}"


def _envelope(text: str) -> str:
    return _json({"from": "User", "id": "me", "args": [{"text": text}]})


def _json(value: object) -> str:
    return quote(json.dumps(value, ensure_ascii=False))
