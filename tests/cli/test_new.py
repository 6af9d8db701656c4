"""`memrelay new`: each command of the README that it writes works as printed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.cli.new_project import FILES, TEMPLATES
from tests.support.program import Program
from tests.support.sessions import Reader, fences

# The environment of the tests has pytest.
INSTALL, UP = "-m pip install pytest", " up --reload"
ANSWERS = {
    "block": ['"Hello, User: the kettle is on"\n'],
    "pipeline": ['"guid"', '"content":"The meeting is at 3pm"'],
}


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


def list_files(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


@pytest.mark.parametrize("kind", ["block", "pipeline"])
def test_the_bundle_passes_the_check(program: Program, kind: str) -> None:
    assert program.run("new", kind, f"my_{kind}").code == 0
    folder = program.folder / f"my_{kind}"

    checked = program.run(
        "check", folder / "bundle.json", MEMRELAY_BLOCKS__PATHS=str(folder / "blocks")
    )

    assert (checked.code, checked.err, checked.lines[0]["warnings"]) == (0, "", 0)


def test_a_command_says_how_to_correct_a_broken_block(program: Program) -> None:
    program.run("new", "block", "my_notes")
    blocks = program.folder / "my_notes" / "blocks"
    paths = {"MEMRELAY_BLOCKS__PATHS": str(blocks)}
    program.run("deploy", blocks.parent / "bundle.json", "--uid", "notes", **paths)
    (blocks / "my_notes.py").write_text("def x(:\n")

    # This process has loaded the block already.
    ended = program.run_process("say", "notes", "tea", **paths)

    assert ended.code == 1
    assert "my_notes.py, line 1: SyntaxError" in ended.err
    assert f"correct {blocks}" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "pipeline"])
def test_the_commands_of_the_readme_work(kind: str) -> None:
    with Reader() as reader:
        created = reader.type(f".venv/bin/memrelay new {kind} my_notes")
        shown = [text for _, text in fences(reader.folder / "my_notes" / "README.md")]
        lines = [line for text in shown for line in text.splitlines() if INSTALL not in line]
        commands = [f"env -C my_notes {line}" for line in lines]
        (start,) = [command for command in commands if command.endswith(UP)]
        tested, checked = map(reader.type, commands[:2])
        reader.start(start, "Press Ctrl-C to stop")
        deployed, *answers = map(reader.type, commands[commands.index(start) + 1 :])

    printed = [line for line in lines if line.startswith("..")]
    assert all(line.partition(' "')[0] in created for line in printed)
    assert "2 passed" in tested
    assert '"ok":true' in checked and '"warnings":0' in checked
    assert '"served":true' in deployed
    for expected, answer in zip(ANSWERS[kind], answers, strict=True):
        assert expected in answer.replace("\\", "")


def test_json_lists_the_files(program: Program) -> None:
    (created,) = program.run("new", "pipeline", "my_notes", "--json").lines

    assert created["files"] == [
        f"my_notes/{file}" for file in list_files(program.folder / "my_notes")
    ]
    assert len(created["files"]) == len(FILES)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("My-Notes", "use lower-case letters"),
        ("../notes", "use lower-case letters"),
        ("a" * 41, "at most 40"),
        ("class", "no keyword"),
        ("block", "confused with the decorator"),
        ("test_notes", "confused with the decorator"),
        ("add_1", "is taken (built in)"),
        ("json", "is taken (a module"),
    ],
)
def test_a_name_that_would_not_work_is_refused(program: Program, name: str, reason: str) -> None:
    ended = program.run("new", "block", name)

    assert (ended.code, ended.out, list(program.folder.iterdir())) == (1, "", [])
    assert reason in ended.err


def test_nothing_is_overwritten(program: Program) -> None:
    folder = program.folder / "my_notes"
    folder.mkdir()
    (folder / "README.md").write_text("mine")

    ended = program.run("new", "block", "my_notes")

    assert ended.code == 1 and "exists already" in ended.err
    assert list_files(folder) == ["README.md"]
    assert (folder / "README.md").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["block", "pipeline"])
def test_the_code_is_typed_and_formatted(program: Program, kind: str) -> None:
    assert program.run("new", kind, "my_notes").code == 0
    folder = program.folder / "my_notes"
    search = {"MYPYPATH": str(folder / "blocks")}

    for tool in (
        ["mypy", "--strict", "blocks/my_notes.py", "test_my_notes.py"],
        ["ruff", "check", "--isolated", "--select", "E,F,W,UP,B", "."],
        ["ruff", "format", "--isolated", "--line-length", "100", "--check", "."],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *tool],
            cwd=folder,
            env=dict(os.environ) | search,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_template_has_a_file() -> None:
    templates = {file.stem for file in TEMPLATES.rglob("*.txt")}

    assert templates == FILES.keys()
