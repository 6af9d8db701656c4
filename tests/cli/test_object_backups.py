"""`memrelay backup` and `memrelay restore` with the URL of an object store."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program import COMMAND, Program
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        assert program.run("deploy", SAMPLE, "--uid", "tea").code == 0
        yield program


def test_the_newest_backup_is_restored_on_an_empty_machine(program: Program) -> None:
    url = f"file://{program.folder}/objects"

    saved = program.run("backup", "--to", url)
    other = {"MEMRELAY_MEMORY__ROOT": str(program.folder / "other")}
    restored = program.run("restore", url, **other)
    again = program.run("restore", saved.out.splitlines()[-1], "--force", **other)

    assert [saved.code, restored.code, again.code] == [0, 0, 0], (saved, restored, again)
    assert [one["pipeline_uid"] for one in program.run("ls", **other).lines] == ["tea"]
    assert list(program.folder.glob(".memrelay-backup-*")) == []


def test_repeated_backups_start_at_once_and_end_with_a_signal(program: Program) -> None:
    objects = program.folder / "objects"
    objects.write_text("a file where a folder must be")
    command = ["backup", "--to", f"file://{objects}", "--every", "1m"]

    done = subprocess.run(
        [*COMMAND, *command], env=program.environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1 and "cannot be used" in done.stderr

    objects.unlink()
    process = subprocess.Popen([*COMMAND, *command], env=program.environment)
    wait_for(lambda: list(objects.glob("*/index.json")), "there is a backup")
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) == 128 + signal.SIGTERM
    assert list(program.folder.glob(".memrelay-backup-*")) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--every", "soon"), "--every must be"),
        (("--keep", "many"), "--keep must be"),
        (("--keep", ","), "--keep must be"),
    ],
)
def test_wrong_options_are_explained(
    program: Program, options: tuple[str, ...], reason: str
) -> None:
    ended = program.run("backup", "--to", f"file://{program.folder}/objects", *options)

    assert ended.code == 1 and reason in ended.err


def test_every_and_keep_need_a_url(program: Program) -> None:
    ended = program.run("backup", "--to", program.folder / "saved", "--every", "1h")

    assert ended.code == 1 and "need a URL" in ended.err


def test_a_url_without_a_backup_says_so(program: Program) -> None:
    ended = program.run("restore", f"file://{program.folder}/empty")

    assert ended.code == 1 and "has no backup" in ended.err
