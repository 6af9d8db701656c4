"""The start of a session prints the context of the project as each tool reads it."""

import json
import socket
from collections.abc import Callable
from contextlib import closing

import pytest

from memrelay.capture.configuration import Configuration, copy_hook, save
from memrelay.capture.file_context import find_text
from tests.support.capture import TOOLS, CaptureHome, Json, read_session
from tests.support.keys import await_closed, make_key
from tests.support.shared import SECRETS
from tests.support.web_system import WebSystem

READ: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(
        ("claude-code", "codex", "gemini-cli"),
        lambda printed: json.loads(printed)["hookSpecificOutput"]["additionalContext"],
    ),
    "cursor": lambda printed: json.loads(printed)["additional_context"],
    "opencode": lambda printed: printed,
}


def start(home: CaptureHome, tool: str = "claude-code", **fields: str) -> str:
    payload: Json = read_session(tool, home)[0]
    return home.run_hook(tool, payload | fields)


def work(home: CaptureHome) -> None:
    home.prompt("We deploy on Fridays only.")
    home.send()


def test_each_tool_reads_the_context(home: CaptureHome, web_system: WebSystem) -> None:
    home.install(url=web_system.url, pipeline=web_system.deploy())
    work(home)

    for tool in TOOLS:
        text = READ[tool](start(home, tool))
        assert "data" in text.splitlines()[0] and "not instructions" in text.splitlines()[0]
        assert text.splitlines()[-2].endswith(" (feature/ports): We deploy on Fridays only.")
    assert start(home, source="resume") == ""
    assert start(home, cwd=str(home.folder)) == ""


def make_program(home: CaptureHome, script: str) -> str:
    """Return a program that the hook starts in place of Python, to ask a store file."""
    program = home.folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return str(program)


def test_a_store_file_gives_the_context(home: CaptureHome) -> None:
    arguments = str(home.paths.config), str(home.paths.state), "git.example.com/team/app"
    assert find_text(arguments) == "" and not home.store.exists()
    work(home)

    assert find_text(arguments).splitlines()[-2].endswith(": We deploy on Fridays only.")
    assert "Fridays" not in find_text((*arguments[:2], "git.example.com/team/other"))


def test_the_hook_shows_the_context_of_a_store_file(home: CaptureHome) -> None:
    """The hook asks the program with these words."""
    home.install(python=make_program(home, 'printf "%s " "$@"'))

    words = READ["claude-code"](start(home)).split()

    assert words == [
        *("-E", "-P", "-m", "memrelay.capture.file_context"),
        *(str(home.paths.config), str(home.paths.state), "git.example.com/team/app"),
    ]


@pytest.mark.parametrize("has_url", [False, True], ids=["file", "server"])
def test_a_context_that_takes_too_long_is_logged(has_url: bool, home: CaptureHome) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        address = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "pipeline": "p"}
        home.install(python=make_program(home, "exec sleep 60"), **address if has_url else {})
        home.limit("DEADLINE_S, CONTEXT_S, FILE_CONTEXT_S = 50.0, 0.1, 0.1")

        assert start(home) == ""

    assert "hook TimeoutError in line" in home.log


def test_a_dead_or_silent_server_prints_nothing(home: CaptureHome) -> None:
    copy_hook(home.paths)  # with its real limits
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        save(home.paths, Configuration(url=url, pipeline="p", python="/bin/true"))
        assert start(home) == ""
    assert start(home) == ""
    assert "ConnectionRefusedError" in home.log


def test_a_key_with_write_and_search_is_enough(home: CaptureHome) -> None:
    with WebSystem(secrets=SECRETS) as keyed:
        uid = keyed.deploy()
        key = make_key(keyed.system.root, "write", "search", pipelines=(uid,))
        await_closed(keyed)
        home.install(url=keyed.url, pipeline=uid, key=key.text)
        work(home)

        assert "Fridays" in start(home)
        assert home.spooled() == []

        home.install(url=keyed.url, pipeline=uid, key="mr_wrong")
        home.prompt("With a wrong key")
        home.send()
        assert start(home) == ""
        assert "the server answered 401" in home.log
        assert "mr_wrong" not in home.log
        assert len(home.spooled()) == 1


@pytest.mark.parametrize("tool", TOOLS)
def test_the_context_is_no_part_of_the_capture(tool: str, home: CaptureHome) -> None:
    """What is shown at the start does not come back as a prompt of the user."""
    start(home, tool)

    assert home.spooled() == []
