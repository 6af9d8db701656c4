"""The front door: what `memrelay` alone does, and how much of the house it wakes."""

import errno
import importlib
import keyword
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from memrelay.cli.composition import settled
from memrelay.cli.main import COMMANDS, NAME, make_app
from memrelay.cli.settings import Settings
from tests.cli.terminal import Terminal
from tests.support.child import CHECKOUT
from tests.support.disk import small_disk
from tests.support.house import House
from tests.support.program import COMMAND, Program
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "pipelines" / "memory_test.json"
FULL = Path("/dev/full")  # of Linux
HEAVY = {
    "pydantic",
    "yaml",
    "aiohttp",
    "apsw",
    "aiosqlite",
    "asyncio",
    "uvloop",
    "prompt_toolkit",
    "rich",
    "re2",
    "jinja2",
    "msgspec",
    "orjson",
    "hiredis",
}
QUOTES = 'A text of several words stands in quotes: "The meeting is at 3pm"'
LOADED = """
import sys
from memrelay.cli.main import main
sys.argv = ["memrelay", *sys.argv[1:]]
try:
    main()
except SystemExit:
    print(" ".join(sys.modules))
"""


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


def loaded_by(program: Program, *arguments: str, **environment: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env=program.environment | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(done.stdout.splitlines()[-1].split())


def invoke(*arguments: str) -> Result:
    """The same program in this process, where nothing is started that would last."""
    return CliRunner().invoke(make_app(), arguments, prog_name=NAME)


def test_what_another_user_made_is_told_to_be_that_users(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(settings: Settings) -> None:
        raise PermissionError(
            errno.EACCES, "Permission denied", "/data/system.db"
        )  # as root none would be

    with pytest.raises(typer.Exit):
        settled(refused)

    assert capsys.readouterr().err == (
        "memrelay: /data/system.db: Permission denied; what another user made, as by sudo, "
        "that user may use\n"
    )


def test_ctrl_c_while_the_program_is_loaded_ends_it_without_a_word(program: Program) -> None:
    (program.folder / "typer.py").write_text(
        "import time; print('loading', flush=True); time.sleep(60)"
    )
    slow = program.environment | {"PYTHONPATH": f"{program.folder}{os.pathsep}{CHECKOUT}"}
    with subprocess.Popen(
        [sys.executable, "-c", "from memrelay.cli.start import main; main()"],
        env=slow,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as loading:
        assert loading.stdout is not None
        assert loading.stdout.readline() == "loading\n"

        loading.send_signal(signal.SIGINT)

        assert loading.stdout.read() == ""
    assert loading.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("say", "x", "/write", "The", "meeting"), f"(The meeting). {QUOTES}"),
        (("records", "create", "x", "two", "words"), f"(words). {QUOTES}"),
        (
            ("say", "x", "-1"),
            'No such option: -1. A text that begins with - comes last, behind --: -- "- milk"',
        ),
        (
            ("say", "x", "y", "--swram", "z"),
            "No such option: --swram (Possible options: --swarm, --wait)",
        ),
        (("rm", "x", "y\x1b"), "Error: Got unexpected extra argument(s) (y\\u001b)"),
        (("rm", "-x"), "Error: No such option: -x"),
    ],
)
def test_a_text_that_a_shell_has_taken_apart_is_told_with_the_remedy(
    words: tuple[str, ...], told: str
) -> None:
    result = invoke(*words)

    assert result.exit_code == 2
    assert result.output.endswith(f"{told}\n")


def test_help_lists_each_command_and_what_it_is_for(program: Program) -> None:
    ended = program.run("--help")

    assert ended.code == 0
    assert all(
        f"  {name} " in ended.out and summary in ended.out
        for name, summary in COMMANDS.items()
        if len(summary) < 60
    )


def test_it_says_its_version(program: Program) -> None:
    ended = program.run("--version")

    assert (ended.code, ended.out) == (0, f"memrelay {version('memrelay')}\n")


def test_summaries_are_short_enough_for_a_shell_to_show_beside_the_name() -> None:
    assert [
        name for name, summary in COMMANDS.items() if len(summary) > 80 or not summary.endswith(".")
    ] == []


def test_help_loads_no_part_that_a_command_needs(program: Program) -> None:
    loaded = loaded_by(program, "--help")

    assert loaded & HEAVY == set()
    assert {
        name
        for name in loaded
        if name.startswith(("bus.", "memory.", "worker.", "web.", "cli.commands."))
    } == set()


def test_completing_a_command_loads_no_part_that_a_command_needs(program: Program) -> None:
    loaded = loaded_by(
        program, COMP_WORDS="memrelay s", COMP_CWORD="1", _MEMRELAY_COMPLETE="complete_bash"
    )

    assert loaded & HEAVY <= {"pydantic"}  # with which typer reads options


def test_a_command_that_opens_no_store_loads_nothing_of_stores(program: Program) -> None:
    loaded = loaded_by(program, "ls")

    assert "memory.catalog" in loaded
    assert (
        loaded
        & {"apsw", "re2", "jinja2", "aiohttp", "numpy", "memory.words", "memory.sqlite.store"}
        == set()
    )


def in_its_file(name: str) -> Any:
    """What `memrelay NAME` is made of: a function, or the list of a group's."""
    word = name + "_" * keyword.iskeyword(name)
    return getattr(importlib.import_module(f"memrelay.cli.commands.{word}"), word)


GROUPS = {name: in_its_file(name) for name in COMMANDS if isinstance(in_its_file(name), list)}
CALLED = [(name,) for name in COMMANDS if name not in GROUPS] + [
    (name, one.__name__) for name, group in GROUPS.items() for one in group
]


def test_each_command_is_in_the_file_of_its_name() -> None:
    assert all(callable(one) for name in COMMANDS for one in GROUPS.get(name, [in_its_file(name)]))


@pytest.mark.parametrize("words", CALLED, ids=" ".join)
def test_each_command_says_how_it_is_used_and_those_that_answer_take_json(
    words: tuple[str, ...],
) -> None:
    ended = invoke(*words, "--help")

    assert (ended.exit_code, ended.stderr) == (0, "")
    assert f"Usage: memrelay {' '.join(words)} [OPTIONS]" in ended.stdout
    assert "--json" in ended.stdout and "[[" not in ended.stdout


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_lists_its_commands_and_wants_one(name: str) -> None:
    asked, alone = invoke(name, "--help"), invoke(name)

    assert (asked.exit_code, alone.exit_code) == (0, 2)
    assert COMMANDS[name] in asked.stdout
    assert all(f"  {one.__name__} " in asked.stdout for one in GROUPS[name])


@pytest.mark.parametrize(
    ("misspelt", "meant"), [("depoly", "deploy"), ("tial", "tail"), ("docter", "doctor")]
)
def test_a_misspelt_command_gets_a_suggestion(misspelt: str, meant: str) -> None:
    ended = invoke(misspelt, "memory_test")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"No such command '{misspelt}'. Did you mean '{meant}'?" in ended.stderr


def test_without_a_command_help_is_printed_and_the_usage_was_wrong(program: Program) -> None:
    ended = program.run()

    assert ended.code == 2
    assert "Commands:" in ended.out + ended.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("say", "memory_test"),
        ("rm",),
        ("ls", "--jsn"),
        ("say", "x", "y", "--wait", "soon"),
        ("say", "x", "y", "--wait", "nan"),
        ("completion", "tcsh"),
        ("tail", "x", "--since", "y"),
        ("send", "x", "y", "--swarm", "chat", "--agent", "z"),
        ("send", "x", "y", "--id", ""),
    ],
)
def test_wrong_usage_is_code_2_and_says_where_help_is(arguments: tuple[str, ...]) -> None:
    ended = invoke(*arguments)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"Try 'memrelay {arguments[0]} --help' for help." in ended.stderr


def test_a_reader_that_leaves_is_no_failure(program: Program) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, "doctor"], env=program.environment, stdout=pipe, stderr=pipe
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()

        assert (command.stderr.read(), command.wait(60)) == (b"", 0)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_no_failure(program: Program, closed: str) -> None:
    empty(program)

    done = subprocess.run(
        ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, "ls"],
        cwd=program.folder,
        env=program.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
@pytest.mark.parametrize(
    "words", [("--help",), ("say", "--help"), ("--version",), ("doctor",), ("completion", "bash")]
)
def test_what_cannot_be_written_is_told_in_a_sentence(
    program: Program, words: tuple[str, ...]
) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=program.folder,
            env=program.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )

    assert done.returncode == 1 and done.stderr.startswith(
        "memrelay: stdout: No space left on device"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "folder", "told"),
    [
        ("worker", "memory", "memory/owner.lock: No space left on device; make room"),
        ("web", "memory", "disk is full; make room"),
        ("bus", "bus", "the embedded server needs room in "),
    ],
)
def test_a_first_start_on_a_full_disk_says_which_and_to_make_room(
    command: str, folder: str, told: str
) -> None:
    with Program() as alone, small_disk(alone.folder / folder, 1) as disk:
        disk.fill()
        ended = alone.run(
            command, MEMRELAY_BUS__URL="" if command == "bus" else "redis://127.0.0.1:1"
        )

    (sentence,) = ended.err.splitlines()
    assert (
        ended.code == 1
        and sentence.startswith("memrelay: ")
        and str(alone.folder / folder) in sentence
    )
    assert told in sentence


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_a_terminal_is_given_colours_unless_they_are_not_wanted(
    program: Program, environment: dict[str, str], coloured: bool
) -> None:
    with Terminal(program, "doctor", **environment) as terminal:
        terminal.end()

    assert (b"\x1b[" in terminal.raw) == coloured


def test_on_a_terminal_ls_is_a_table(program: Program) -> None:
    empty(program)

    with Terminal(program, "ls") as terminal:
        assert terminal.end() == 0

    assert "No pipeline is in service; deploy one with `memrelay deploy FILE`." in terminal.seen


def empty(program: Program) -> None:
    """A memory root in which there was a pipeline, and is none."""
    program.run("deploy", SAMPLE, "--uid", "tea")
    assert program.run("rm", "tea").code == 0


@pytest.mark.skipif(not FULL.exists(), reason="it is Linux's")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_everything_goes_on_where_its_greeting_finds_no_room(
    options: list[str], tmp_path: Path
) -> None:
    with House() as house, FULL.open("wb") as full, (log := tmp_path / "log").open("wb") as said:
        environment = os.environ | {
            "MEMRELAY_BUS__URL": f"unix://{house.client.socket}",
            "MEMRELAY_WEB__PORT": "0",
            "MEMRELAY_MEMORY__ROOT": str(house.root),
        }
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.run_program", "up", *options],
            cwd=CHECKOUT,
            env=environment,
            stdout=full,
            stderr=said,
        ) as process:
            wait_for(
                lambda: b"pipelines_served" in log.read_bytes() or process.poll() is not None,
                "it serves",
            )
            time.sleep(1)  # it greets meanwhile
            process.terminate()
            ended = process.wait(30)

    assert (ended, b"No space" in log.read_bytes()) == (0, False), log.read_text()
