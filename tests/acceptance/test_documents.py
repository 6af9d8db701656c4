"""The commands in the documentation run in order and print what the pages show."""

import re
import shlex
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.support.sessions import CHECKOUT, UID, Reader, fences, looks_like, steps
from tests.support.waiting import wait_for

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
# test_webhooks_page.py runs webhooks.md, whose commands share variables of a shell.
SHOWING = [page for page in PAGES if list(steps(page)) and page.name != "webhooks.md"]
MARKS = {
    "bus": "embedded_server_ready",
    "worker": "pipelines_served",
    "web": "web_ready",
    "up": "Press Ctrl-C to stop",
}


def serves(command: str) -> str:
    """Return the serving command that is started in the background; "" for a command that ends."""
    match = re.fullmatch(r"\S*memrelay (\w+) &", command)
    return match[1] if match else ""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.slow)
        for page in SHOWING
    ],
    ids=lambda page: page.name,
)
def test_the_commands_of_a_page_print_what_it_shows(page: Path) -> None:
    told = list(steps(page))
    with Reader() as reader:
        if not any(serves(step.command) for step in told):
            reader.up()

        for command, shown in told:
            if kind := serves(command):
                reader.start(command.removesuffix(" &"), "" if kind == "worker" else MARKS[kind])
                continue
            printed = reader.type(command)
            reader.learn(shown, printed)
            assert looks_like(reader.adapted(shown), printed) or not shown, f"{command}\n{printed}"
            assert shown or "memrelay: " not in printed, f"{command}\n{printed}"


def test_a_redis_server_accepts_the_redis_lines_of_the_readme() -> None:
    lines = [
        line
        for language, text in fences(CHECKOUT / "README.md")
        if language == "redis"
        for line in text.splitlines()
    ]
    with Reader() as reader:
        reader.up()
        url = reader.type(".venv/bin/memrelay bus --url").strip()
        with redis.Redis.from_url(url) as client:
            for line in lines:
                hear_or_say(client, *shlex.split(reader.adapted(line)))

    assert len(lines) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_in_console_blocks(page: Path) -> None:
    outside = [text for language, text in fences(page) if language not in ("console", "redis")]

    assert not [
        text for text in outside if re.search(r"^(\$ |curl |\S*bin/memrelay )", text, re.MULTILINE)
    ]
    assert UID not in "".join(outside)


def hear_or_say(client: redis.Redis, command: str, *words: str) -> None:
    """Run a command. A PUBLISH without listeners is repeated, since the worker may have just
    started.
    """
    if command == "SUBSCRIBE":
        with client.pubsub() as listening:
            listening.subscribe(*words)
    else:
        wait_for(partial(client.execute_command, command, *words), f"{command} is heard")
