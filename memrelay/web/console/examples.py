"""Example shell commands for a pipeline, with its names filled in."""

import json
from collections.abc import Sequence
from shlex import quote
from typing import NamedTuple
from urllib.parse import quote as quote_url

from memrelay.bus.keys import input_key, swarm_key
from memrelay.installation import PROGRAM as MEMRELAY
from memrelay.pipelines.commands import Command

WRITE, READ, GREETING = "/write The meeting is at 3pm", "/read", "hello"
# For a swarm whose messages are tool calls, in both dialects.
TOOL_CALL = '{"command": "view", "path": "/memories"}'


class Example(NamedTuple):
    """A shell command and what it does."""

    title: str
    command: str


class SwarmAddress(NamedTuple):
    """A swarm and the ways to reach it.

    `url` is this server's. `redis_cli` connects to the bus. `owner` is the owner in the swarm's
    key.
    """

    url: str
    redis_cli: str
    uid: str
    swarm: str
    owner: str

    @property
    def path(self) -> str:
        """The path of the swarm's messages."""
        return f"/v1/pipelines/{self.uid}/swarms/{quote_url(self.swarm, safe='')}/messages"


class Examples(NamedTuple):
    """Examples by the program that runs them."""

    curl: list[Example]
    memrelay: list[Example]
    redis: list[Example]


def redis_cli(bus: str, password_file: str) -> str:
    """Return the shell command that connects redis-cli to the bus.

    The command reads the password from a file, if one is given, and never contains it.
    """
    password = f'REDISCLI_AUTH="$(cat {quote(password_file)})" ' if password_file else ""
    path = bus.removeprefix("unix://")
    if path.startswith("/"):
        return f"{password}redis-cli -s {quote(path)}"
    return f"{password}redis-cli -u {quote(bus if '://' in bus else f'redis://{bus}')}"


def make_examples(
    address: SwarmAddress, commands: Sequence[Command], text: str = GREETING
) -> Examples:
    """Return the examples for one swarm of a pipeline with these commands.

    `text` is the message for a pipeline without commands.
    """
    words = [command.word for command in commands]
    first = WRITE if "/write" in words else words[0] if words else text
    second = READ if READ in words else first
    return Examples(
        _curl_examples(address, first),
        _memrelay_examples(address, first),
        _redis_examples(address, first, second),
    )


def _curl_examples(address: SwarmAddress, text: str) -> list[Example]:
    messages = address.url + address.path
    return [
        Example(
            "Send a message and wait for the results",
            f"curl {quote(messages + '?wait=5')} -d {_quote_json({'text': text})}",
        ),
        Example("Show the latest messages", f"curl {quote(messages + '?order=desc&limit=5')}"),
    ]


def _memrelay_examples(address: SwarmAddress, text: str) -> list[Example]:
    option = "" if address.swarm == "chat" else f" --swarm {quote(address.swarm)}"
    return [
        Example("Send a message", f"{MEMRELAY} say {address.uid} {quote(text)}{option}"),
        Example("Chat", f"{MEMRELAY} chat {address.uid}{option}"),
        Example("Follow all swarms", f"{MEMRELAY} tail {address.uid}"),
    ]


def _redis_examples(address: SwarmAddress, first: str, second: str) -> list[Example]:
    client, channel = address.redis_cli, quote(swarm_key(address.owner, address.swarm))
    return [
        Example("Follow the swarm", f"{client} SUBSCRIBE {channel}"),
        Example(
            "Send a message, delivered only while a worker runs",
            f"{client} PUBLISH {channel} {_quote_envelope(first)}",
        ),
        Example(
            "Send a message, delivered durably",
            f"{client} XADD {quote(input_key(address.uid))} '*' swarm {quote(address.swarm)} "
            f"data {_quote_envelope(second)}",
        ),
    ]


def _quote_envelope(text: str) -> str:
    return _quote_json({"from": "User", "id": "me", "args": [{"text": text}]})


def _quote_json(value: object) -> str:
    return quote(json.dumps(value, ensure_ascii=False))
