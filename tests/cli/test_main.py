"""The command line as a whole: help, usage errors, imports, streams and signals."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from memrelay.cli.composition import run_with_settings
from memrelay.cli.main import COMMANDS, NAME, OPERATION_GROUPS, find_functions, make_app
from memrelay.cli.main import GROUPS as HEADINGS
from memrelay.cli.settings import Settings
from memrelay.memory.engine.models import MODELS
from memrelay.memory.operations import all_operations
from tests.cli.terminal import Terminal
from tests.support.child import CHECKOUT
from tests.support.disk import small_disk
from tests.support.program import COMMAND, Program
from tests.support.system import TestSystem
from tests.support.tiers import first_always
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
FULL = Path("/dev/full")
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
QUOTES = 'Quote a text of several words: "The meeting is at 3pm"'
UNWANTED = ("bus", "memory", "worker", "web", "cli.commands")
# They name the groups of commands.
MANIFESTS = {
    *("memrelay.memory.engine", "memrelay.memory.engine.models", "memrelay.memory.models"),
    *MODELS,
}
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


def loaded_by(program: Program, *arguments: str | Path, **environment: str) -> set[str]:
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
    """Run a command that only prints in this process."""
    return CliRunner().invoke(make_app(), arguments, prog_name=NAME)


def test_a_file_of_another_user_is_reported_with_a_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(settings: Settings) -> None:
        # root gets no such error from the system.
        raise PermissionError(errno.EACCES, "Permission denied", "/data/system.db")

    with pytest.raises(typer.Exit):
        run_with_settings(refused)

    assert capsys.readouterr().err == (
        "memrelay: /data/system.db: Permission denied; run Memrelay as the user who owns it (was "
        "it created with sudo?)\n"
    )


def test_ctrl_c_during_the_imports_ends_the_program_without_a_traceback(program: Program) -> None:
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
    ("words", "message"),
    [
        (("say", "x", "/write", "The", "meeting"), f"(The meeting). {QUOTES}"),
        (("records", "create", "x", "two", "words"), f"(words). {QUOTES}"),
        (
            ("say", "x", "-1"),
            'No such option: -1. Put a text that begins with - last, after --: -- "- milk"',
        ),
        (
            ("say", "x", "y", "--swram", "z"),
            "No such option: --swram (Possible options: --swarm, --wait)",
        ),
        (("rm", "x", "y\x1b"), "Error: Got unexpected extra argument(s) (y\\u001b)"),
        (("rm", "-x"), "Error: No such option: -x"),
    ],
)
def test_a_text_that_a_shell_has_split_is_reported_with_a_fix(
    words: tuple[str, ...], message: str
) -> None:
    result = invoke(*words)

    assert result.exit_code == 2
    assert result.output.endswith(f"{message}\n")


def test_help_lists_each_command_with_its_summary() -> None:
    ended = invoke("--help")

    assert ended.exit_code == 0
    assert all(
        f"  {name} " in ended.stdout and summary in ended.stdout
        for name, summary in COMMANDS.items()
        if len(summary) < 60
    )


def test_help_groups_the_commands() -> None:
    lines = invoke("--help").stdout.splitlines()

    headings = [line.rstrip(":") for line in lines if re.fullmatch(r"\w.*:", line)]
    assert headings == ["Options", *HEADINGS]
    assert lines.index("Run:") < lines.index("Administration:")
    assert len(COMMANDS) == sum(map(len, HEADINGS.values()))


def test_the_version_is_printed() -> None:
    ended = invoke("--version")

    assert (ended.exit_code, ended.stdout) == (0, f"memrelay {version('memrelay')}\n")


def test_summaries_are_short_enough_for_shell_completion() -> None:
    assert [
        name for name, summary in COMMANDS.items() if len(summary) > 80 or not summary.endswith(".")
    ] == []


def test_help_imports_nothing_that_only_commands_need(program: Program) -> None:
    loaded = loaded_by(program, "--help")

    assert loaded & HEAVY == set()
    assert {
        name
        for name in loaded
        if name.startswith(tuple(f"memrelay.{package}." for package in UNWANTED))
        and name not in MANIFESTS
    } == set()


def test_completing_a_command_imports_nothing_that_only_commands_need(program: Program) -> None:
    loaded = loaded_by(
        program, COMP_WORDS="memrelay s", COMP_CWORD="1", _MEMRELAY_COMPLETE="complete_bash"
    )

    # typer uses pydantic for options.
    assert loaded & HEAVY <= {"pydantic"}


def test_a_command_without_stores_imports_no_store_modules(program: Program) -> None:
    loaded = loaded_by(program, "ls")

    assert "memrelay.memory.control.catalog" in loaded
    assert (
        loaded & {"apsw", "re2", "jinja2", "aiohttp", "numpy", "memrelay.memory.engine.store"}
        == set()
    )


FOUND = {name: find_functions(name) for name in COMMANDS}
GROUPS = {
    name: [function.__name__.replace("_", "-") for function in found]
    for name, found in FOUND.items()
    if isinstance(found, list)
}
CALLED = [(name,) for name in COMMANDS if name not in GROUPS] + [
    (name, verb) for name, verbs in GROUPS.items() for verb in verbs
]


def test_each_command_is_in_the_file_of_its_name() -> None:
    paths = (CHECKOUT / "memrelay" / "cli" / "commands").glob("[!_]*.py")
    files = {path.stem.rstrip("_").replace("_", "-") for path in paths}

    assert files | OPERATION_GROUPS.keys() == COMMANDS.keys()


def test_each_noun_of_the_operations_is_a_group() -> None:
    nouns = {operation.noun.replace("_", "-") for operation in all_operations().values()}

    assert nouns == OPERATION_GROUPS.keys()


@pytest.mark.parametrize("words", CALLED, ids=" ".join)
def test_each_command_has_usage_help_and_a_json_option(
    words: tuple[str, ...],
) -> None:
    ended = invoke(*words, "--help")

    assert (ended.exit_code, ended.stderr) == (0, "")
    assert f"Usage: memrelay {' '.join(words)} [OPTIONS]" in ended.stdout
    # Only JSON-RPC goes to the output of `mcp`.
    assert ("--json" in ended.stdout) == (words != ("mcp",))
    assert "[[" not in ended.stdout


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_lists_its_commands_and_requires_one(name: str) -> None:
    helped, alone = invoke(name, "--help"), invoke(name)

    assert (helped.exit_code, alone.exit_code) == (0, 2)
    assert COMMANDS[name] in helped.stdout
    assert all(f"  {verb} " in helped.stdout for verb in GROUPS[name])


@pytest.mark.parametrize(
    ("misspelled", "meant"), [("depoly", "deploy"), ("tial", "tail"), ("docter", "doctor")]
)
def test_a_misspelled_command_gets_a_suggestion(misspelled: str, meant: str) -> None:
    ended = invoke(misspelled, "memory_test")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"No such command '{misspelled}'. Did you mean '{meant}'" in ended.stderr


def test_without_a_command_help_is_printed_with_exit_code_2() -> None:
    ended = invoke()

    assert ended.exit_code == 2
    assert "Messages:" in ended.stdout + ended.stderr


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
def test_wrong_usage_has_exit_code_2_and_points_to_the_help(arguments: tuple[str, ...]) -> None:
    ended = invoke(*arguments)

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"Try 'memrelay {arguments[0]} --help' for help." in ended.stderr


def test_a_closed_reader_is_not_a_failure(program: Program) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, "doctor"], env=program.environment, stdout=pipe, stderr=pipe
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()

        assert (command.stderr.read(), command.wait(60)) == (b"", 0)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_not_a_failure(program: Program, closed: str) -> None:
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


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full exists only on Linux")
@pytest.mark.parametrize(
    "words", [("--help",), ("say", "--help"), ("--version",), ("doctor",), ("completion", "bash")]
)
def test_a_full_stdout_is_reported_in_one_sentence(
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
    ("command", "folder", "message"),
    [
        ("worker", "memory", "memory/owner.lock: No space left on device; make room"),
        ("web", "memory", "disk is full; make room"),
        ("bus", "bus", "the embedded server needs disk space in "),
    ],
)
def test_a_first_start_on_a_full_disk_names_the_disk(
    command: str, folder: str, message: str
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
    assert message in sentence


@pytest.mark.parametrize(
    ("environment", "is_colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colors_unless_the_environment_forbids_them(
    program: Program, environment: dict[str, str], is_colored: bool
) -> None:
    with Terminal(program, "doctor", **environment) as terminal:
        terminal.end()

    assert (b"\x1b[" in terminal.raw) == is_colored


def test_on_a_terminal_ls_is_a_table(program: Program) -> None:
    empty(program)

    with Terminal(program, "ls") as terminal:
        assert terminal.end() == 0

    assert "No pipeline is active; deploy one with `memrelay deploy FILE`." in terminal.seen


def empty(program: Program) -> None:
    """Deploy a pipeline and remove it."""
    program.run("deploy", SAMPLE, "--uid", "tea")
    assert program.run("rm", "tea").code == 0


@pytest.mark.skipif(not FULL.exists(), reason="/dev/full exists only on Linux")
@pytest.mark.parametrize("options", first_always([], ["--json"]))
def test_a_server_runs_if_its_greeting_cannot_be_written(
    options: list[str], tmp_path: Path
) -> None:
    with (
        TestSystem() as system,
        FULL.open("wb") as full,
        (log := tmp_path / "log").open("wb") as errors,
    ):
        environment = os.environ | {
            "MEMRELAY_BUS__URL": f"unix://{system.client.socket}",
            "MEMRELAY_WEB__PORT": "0",
            "MEMRELAY_MEMORY__ROOT": str(system.root),
        }
        with subprocess.Popen(
            [sys.executable, "-m", "tests.support.run_program", "up", *options],
            cwd=CHECKOUT,
            env=environment,
            stdout=full,
            stderr=errors,
        ) as process:
            wait_for(
                lambda: b"pipelines_served" in log.read_bytes() or process.poll() is not None,
                "it serves",
            )
            time.sleep(1)  # the greeting is written
            process.terminate()
            ended = process.wait(30)

    assert (ended, b"No space" in log.read_bytes()) == (0, False), log.read_text()


def test_journals_are_loaded_only_with_a_storage_url(program: Program) -> None:
    loaded = load_services(program) | loaded_by(program, "backup", "--to", program.folder / "b")

    assert "apsw" in loaded
    assert not {"psycopg", "memrelay.memory.engine.journal"} & loaded


def test_what_only_programs_of_users_need_is_loaded_by_no_server(program: Program) -> None:
    parts = ("integrations", "testing", "embedded", "blocks.nouns", "cli.reloading", "web.oauth.")
    names = tuple(f"memrelay.{part}" for part in parts)

    assert [name for name in load_services(program) if name.startswith(names)] == []


def load_services(program: Program) -> set[str]:
    """Return the modules that a worker and a web server load."""
    services = "import sys, memrelay.worker.service, memrelay.web.app"
    done = subprocess.run(
        [sys.executable, "-c", f"{services}; print(*sys.modules)"],
        env=program.environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return set(done.stdout.split())
