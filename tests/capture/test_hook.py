"""The hook turns the events of each coding tool into lines of the spool, and never disturbs it."""

import ast
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memrelay import open_store
from memrelay.capture.configuration import CHECKS, HOOK, find_paths
from memrelay.capture.hook import MAX_SEGMENT, MAX_SPOOL, MAX_TEXT, find_folders
from memrelay.capture.spool import Spool
from tests.support.capture import (
    TOOLS,
    CaptureHome,
    Json,
    make_prompt,
    make_result,
)
from tests.support.waiting import wait_for

PROJECT, BRANCH = "git.example.com/team/app", "feature/ports"
# The tools name their shell differently.
SHELLS = {"gemini-cli": "run_shell_command", "cursor": "Shell", "opencode": "bash"}


def expected(tool: str) -> list[tuple[str, str]]:
    shell = SHELLS.get(tool, "Bash")
    return [
        ("user", "Which port does the server use?"),
        ("tool", f"{shell} exit 0\n3:port: 8765"),
        ("assistant", "It uses port 8765."),
        ("user", "We deploy on Fridays only."),
        ("assistant", "Noted: deploys happen on Fridays."),
    ]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_recorded_session_becomes_its_turns_once(tool: str, home: CaptureHome) -> None:
    home.play(tool)
    spooled = home.spooled()
    home.send()
    for segment in range(2):  # a sender that was killed before it noted its progress
        (home.paths.spool / str(segment)).write_bytes(
            b"".join(json.dumps(one).encode() + b"\n" for one in spooled)
        )
    home.send()

    with open_store(home.store) as store:
        (thread,) = store.turns.threads().items
        turns = store.turns.list(thread=thread.thread).items
    assert thread.thread == f"capture/{tool}/{spooled[0]['session']}"
    assert [(one.role, one.content) for one in turns] == expected(tool)
    assert {(one.agent, one.user) for one in turns} == {(tool, "ada")}
    assert turns[0].item == {"project": PROJECT, "branch": BRANCH, "tool": tool}
    assert turns[1].item["exit"] == 0
    assert home.spooled() == []


def test_the_hook_starts_the_sender_and_leaves_no_event(home: CaptureHome) -> None:
    home.install(python=sys.executable)

    for n in range(3):
        home.prompt(f"Prompt {n}")

    wait_for(lambda: not Spool(home.paths).state().is_sending and not home.spooled(), "all sent")
    assert home.stored("session-1") == ["Prompt 0", "Prompt 1", "Prompt 2"]


def test_files_are_private_and_sessions_do_not_mix(home: CaptureHome) -> None:
    started = [
        home.start_hook(
            "claude-code",
            make_prompt(home.project, f"Prompt {n} of {s}") | {"session_id": f"s{s}"},
        )
        for n in range(4)
        for s in range(4)
    ]
    for hook in started:
        hook.communicate()

    texts = {(one["session"], one["text"]) for one in home.spooled()}
    assert texts == {(f"s{s}", f"Prompt {n} of {s}") for n in range(4) for s in range(4)}
    modes = {stat.S_IMODE(one.stat().st_mode) for one in home.paths.state.rglob("*")}
    assert modes == {0o700, 0o600}


def test_a_full_spool_drops_and_counts_its_oldest_events(home: CaptureHome) -> None:
    home.prompt("The first one")
    (segment,) = home.paths.spool.iterdir()
    line = segment.read_bytes()
    count = MAX_SEGMENT // len(line)
    for n in range(MAX_SPOOL // MAX_SEGMENT + 1):
        (home.paths.spool / f"{n:020d}").write_bytes(line * count)
    segment.unlink()

    home.prompt("The last one")

    state = Spool(home.paths).state()
    assert state.dropped in (count, 2 * count)
    assert state.size <= MAX_SPOOL
    newest = max(home.paths.spool.iterdir())
    assert json.loads(newest.read_bytes().splitlines()[-1])["text"] == "The last one"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"hook_event_name": 7}',
        b'{"hook_event_name": "Unknown"}',
        b"\xff",
    ],
    ids=str,
)
def test_a_strange_payload_changes_nothing(payload: bytes, home: CaptureHome) -> None:
    assert home.run_hook("claude-code", payload) == ""
    assert home.spooled() == []


def test_without_its_files_the_hook_does_nothing(home: CaptureHome) -> None:
    home.paths.patterns.unlink()
    assert home.prompt("No list of secrets, no capture") == ""
    assert "FileNotFoundError" in home.log

    home.paths.configuration.unlink()
    assert home.prompt("Uninstalled") == ""
    assert home.spooled() == []


def test_a_relative_folder_of_the_environment_is_ignored(
    home: CaptureHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home.folder))
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, "in/the/project")

    folders = find_folders()

    assert (folders.config, folders.state) == (str(home.paths.config), str(home.paths.state))
    assert find_paths(os.environ, home.folder) == home.paths


def test_a_folder_that_cannot_be_made_disturbs_no_session(home: CaptureHome) -> None:
    home.paths.state.parent.mkdir(parents=True)
    home.paths.state.write_text("a file where the folder should be")

    assert home.prompt("Nothing is kept") == ""


def test_long_texts_are_cut(home: CaptureHome) -> None:
    home.prompt("x" * (2 * MAX_TEXT))
    home.run_hook("claude-code", make_result(home.project, {"file_path": "a.txt"}, "y" * 5000))
    home.install(tool_results=True)
    home.run_hook("claude-code", make_result(home.project, {"file_path": "a.txt"}, "z" * 5000))

    prompt, short, whole = (one["text"] for one in home.spooled())
    assert len(prompt) == MAX_TEXT
    assert short == "Read exit 0\n" + "y" * 200
    assert whole == "Read exit 0\n" + "z" * 5000


def test_cursor_is_told_to_continue(home: CaptureHome) -> None:
    printed = home.play("cursor")

    assert [one for one in printed if one] == ['{"continue": true}\n'] * 2


def test_repeated_prompts_are_turns_of_their_own(home: CaptureHome) -> None:
    home.prompt("continue")
    home.prompt("continue")
    home.send()

    assert home.stored("session-1") == ["continue", "continue"]


FAILURES: tuple[tuple[Json, str], ...] = (
    ({"tool_response": {"output": "no", "metadata": {"exit_code": 2}}}, "Read exit 2\nno"),
    ({"hook_event_name": "PostToolUseFailure", "error": "no"}, "Read exit 1\nno"),
    ({"tool_response": {"llmContent": "no", "error": "no"}}, "Read exit 1\nno\nno"),
    ({"tool_output": "no", "tool_exit": 127}, "Read exit 127\nno"),
)


@pytest.mark.parametrize(("fields", "text"), FAILURES, ids=str)
def test_a_failed_tool_has_its_exit_code(fields: Json, text: str, home: CaptureHome) -> None:
    payload = make_result(home.project, {"file_path": "a.txt"}, None) | fields

    home.run_hook("claude-code", payload)

    (event,) = home.spooled()
    assert event["text"] == text


@pytest.mark.parametrize("path", [HOOK, CHECKS], ids=lambda path: path.name)
def test_the_copied_files_run_on_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))

    names = {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    names |= {a.name for one in ast.walk(tree) if isinstance(one, ast.Import) for a in one.names}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_a_pipe_or_device_of_a_project_delays_nothing(home: CaptureHome) -> None:
    os.mkfifo(home.project / ".gitignore")
    (home.project / ".git/HEAD").unlink()
    (home.project / ".git/HEAD").symlink_to("/dev/zero")

    home.run_hook("claude-code", make_result(home.project, {"file_path": "a"}, "content"))

    assert [(one["text"], one["branch"]) for one in home.spooled()] == [
        ("Read exit 0\ncontent", "")
    ]


def test_a_clock_that_goes_back_appends_behind_the_last_segment(home: CaptureHome) -> None:
    home.paths.spool.mkdir(parents=True)
    (home.paths.spool / f"{time.time_ns() + 10**12:020d}").write_bytes(b"x" * MAX_SEGMENT)
    earlier = set(home.paths.spool.iterdir())

    home.prompt("One")
    home.prompt("Two")

    (segment,) = set(home.paths.spool.iterdir()) - earlier
    assert segment == max(home.paths.spool.iterdir())
    assert [json.loads(line)["text"] for line in segment.read_bytes().splitlines()] == [
        "One",
        "Two",
    ]


def test_an_event_that_comes_too_late_is_logged(home: CaptureHome) -> None:
    home.limit("DEADLINE_S, CONTEXT_S, FILE_CONTEXT_S = 0.1, 0.1, 0.1")
    command = ["python3", "-I", "-S", str(home.paths.hook), "claude-code"]
    with subprocess.Popen(command, env={"HOME": str(home.folder)}, stdin=subprocess.PIPE) as hook:
        assert hook.wait(timeout=60) == 0

    assert home.log.endswith("hook TimeoutError in line 0: the deadline has passed\n")
