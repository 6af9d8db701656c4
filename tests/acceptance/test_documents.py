"""Every command that the documents show runs, in its order, and prints what they say."""

import re
import shlex
from functools import partial
from pathlib import Path

import pytest
import redis

from tests.support.sessions import CHECKOUT, UID, Reader, fences, looks_like, steps
from tests.support.waiting import wait_for

PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
SHOWING = [page for page in PAGES if list(steps(page))]
MARKS = {
    "bus": "embedded_server_ready",
    "worker": "pipelines_served",
    "web": "web_ready",
    "up": "Press Ctrl-C to stop",
}


def serves(command: str) -> str:
    """Which serving command is started in the background; "" for one that ends."""
    match = re.fullmatch(r"\S*memrelay (\w+) &", command)
    return match[1] if match else ""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", SHOWING, ids=lambda page: page.name)
def test_a_reader_who_types_what_a_page_says_sees_what_it_shows(page: Path) -> None:
    told = list(steps(page))
    with Reader() as reader:
        if not any(serves(step.command) for step in told):
            reader.up()

        for command, shown in told:
            if kind := serves(command):
                reader.start(command.removesuffix(" &"), "" if kind == "worker" else MARKS[kind])
                continue
            printed = reader.type(command)
            assert looks_like(reader.adapted(shown), printed) or not shown, f"{command}\n{printed}"
            assert shown or "memrelay: " not in printed, f"{command}\n{printed}"


def test_the_redis_lines_of_the_readme_are_understood_by_a_redis_server() -> None:
    lines = [
        line
        for language, text in fences(CHECKOUT / "README.md")
        if language == "redis"
        for line in text.splitlines()
    ]
    with Reader() as reader:
        reader.up()
        with redis.Redis(unix_socket_path=str(reader.folder / "data/bus/server.sock")) as client:
            for line in lines:
                hear_or_say(client, *shlex.split(reader.adapted(line)))

    assert len(lines) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_commands_where_they_are_run(page: Path) -> None:
    outside = [text for language, text in fences(page) if language not in ("console", "redis")]

    assert not [
        text for text in outside if re.search(r"^(\$ |curl |\S*bin/memrelay )", text, re.MULTILINE)
    ]
    assert UID not in "".join(outside)


def hear_or_say(client: redis.Redis, command: str, *words: str) -> None:
    """A PUBLISH that nobody heard may be repeated: the worker has begun a moment ago."""
    if command == "SUBSCRIBE":
        with client.pubsub() as listening:
            listening.subscribe(*words)
    else:
        wait_for(partial(client.execute_command, command, *words), f"{command} is heard")
