"""Commands that say what they do while they do it: all of it is done, whoever reads that."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.house import House
from tests.support.program import COMMAND, Program
from tests.support.told import type_command

UIDS = [make_uid() for _ in range(3)]


@pytest.fixture(scope="module")
def kept() -> Iterator[Program]:
    """Three stores in a memory root that nobody serves, with a backup of it as `saved`."""
    with House() as house, Program() as program:
        worker = house.start_worker(bundles=[make_bundle(uid) for uid in UIDS])
        for uid in UIDS:
            house.client.answer(uid, "/write tea")
        worker.kill()
        assert type_command(house, "backup", "--to", str(program.folder / "saved")).returncode == 0
        assert program.run("restore", "saved").code == 0
        yield program


def run_into(stdout: int, program: Program, *command: str) -> tuple[int, str]:
    """(exit code, stderr)."""
    done = subprocess.run(
        [*COMMAND, *command],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def run_unread(program: Program, *command: str) -> tuple[int, str]:
    """With nobody at the other end of its stdout from the start."""
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as gone:
        gone.wait()
        assert gone.stdin is not None
        return run_into(gone.stdin.fileno(), program, *command)


def replaced(root: Path) -> list[str]:
    """The stores that gave way to another, and what came of that is removed."""
    found = sorted(root.glob("**/*.db.replaced-*"))
    names = sorted(one.parent.name for one in found if not one.name.endswith(("-wal", "-shm")))
    for one in found:
        one.unlink()
    return names


def test_a_restore_that_nobody_reads_restores_everything(kept: Program) -> None:
    code, _ = run_unread(kept, "restore", "saved", "--force")

    assert (code, replaced(kept.root)) == (0, sorted(["memory", *UIDS]))


def test_a_restore_whose_report_finds_no_room_restores_everything_and_names_stdout(
    kept: Program,
) -> None:
    with open("/dev/full", "wb") as full:
        code, said = run_into(full.fileno(), kept, "restore", "saved", "--force")

    assert (code, replaced(kept.root)) == (0, sorted(["memory", *UIDS]))
    assert (
        said
        == "memrelay: stdout: No space left on device; the rest is done all the same, and told no more\n"
    )


def test_a_scrub_and_a_backup_that_nobody_reads_end_with_1_where_something_is_wrong(
    kept: Program,
) -> None:
    note = kept.root / "instances" / max(UIDS) / "memories.db.damaged"
    note.write_text("a page was changed\nany\n")
    try:
        assert run_unread(kept, "scrub")[0] == 1
        code, said = run_unread(kept, "backup", "--to", "other")
    finally:
        note.unlink()

    assert code == 1 and "is not in the backup" in said


def test_a_restore_names_the_store_that_the_backup_was_made_without(kept: Program) -> None:
    note = kept.root / "instances" / max(UIDS) / "memories.db.damaged"
    note.write_text("a page was changed\nany\n")
    kept.run("backup", "--to", "partial")
    note.unlink()

    restored = kept.run("restore", "partial", "--force")

    assert restored.code == 1 and f"instances/{max(UIDS)}/memories was not restored" in restored.err
    assert replaced(kept.root) == sorted({"memory", *UIDS} - {max(UIDS)})


def test_what_cannot_be_written_to_stdout_is_named(kept: Program) -> None:
    with open("/dev/full", "wb") as full:
        assert run_into(full.fileno(), kept, "ls", "--json") == (
            1,
            "memrelay: stdout: No space left on device; make room\n",
        )
