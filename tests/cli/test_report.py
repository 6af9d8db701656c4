"""Commands that print progress do all of their work even if stdout is closed or full."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.serving import run_on
from tests.support.bundles import make_bundle, make_uid
from tests.support.program import COMMAND, Program
from tests.support.system import TestSystem

UIDS = [make_uid() for _ in range(3)]


@pytest.fixture(scope="module")
def kept() -> Iterator[Program]:
    """Yield a memory root with three stores and without a worker. `saved` is a backup of it."""
    with TestSystem() as system, Program() as program:
        worker = system.start_worker(bundles=[make_bundle(uid) for uid in UIDS])
        for uid in UIDS:
            system.client.answer(uid, "/write tea")
        worker.kill()
        assert run_on(system, "backup", "--to", str(program.folder / "saved")).code == 0
        assert program.run("restore", "saved").code == 0
        yield program


def run_into(stdout: int, program: Program, *command: str) -> tuple[int, str]:
    """Run a command with this stdout. Return (exit code, stderr)."""
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
    """Run a command with a closed pipe as stdout. Return (exit code, stderr)."""
    with subprocess.Popen(["true"], stdin=subprocess.PIPE) as gone:
        gone.wait()
        assert gone.stdin is not None
        return run_into(gone.stdin.fileno(), program, *command)


def replaced(root: Path) -> list[str]:
    """Return the names of the replaced stores, and remove the replaced files."""
    found = sorted(root.glob("**/*.db.replaced-*"))
    names = sorted(one.parent.name for one in found if not one.name.endswith(("-wal", "-shm")))
    for one in found:
        one.unlink()
    return names


def test_a_restore_with_a_closed_stdout_restores_everything(kept: Program) -> None:
    code, _ = run_unread(kept, "restore", "saved", "--force")

    assert (code, replaced(kept.root)) == (0, sorted(["memory", *UIDS]))


def test_a_restore_with_a_full_stdout_restores_everything_and_names_stdout(
    kept: Program,
) -> None:
    with open("/dev/full", "wb") as full:
        code, error = run_into(full.fileno(), kept, "restore", "saved", "--force")

    assert (code, replaced(kept.root)) == (0, sorted(["memory", *UIDS]))
    assert (
        error == "memrelay: stdout: No space left on device; the command continues without output\n"
    )


def test_scrub_and_backup_with_a_closed_stdout_exit_with_1_for_damage(
    kept: Program,
) -> None:
    note = kept.root / "instances" / max(UIDS) / "memories.db.damaged"
    note.write_text("a page was changed\nany\n")
    try:
        assert run_unread(kept, "scrub")[0] == 1
        code, error = run_unread(kept, "backup", "--to", "other")
    finally:
        note.unlink()

    assert code == 1 and "is not in the backup" in error


def test_a_restore_names_the_store_that_the_backup_lacks(kept: Program) -> None:
    note = kept.root / "instances" / max(UIDS) / "memories.db.damaged"
    note.write_text("a page was changed\nany\n")
    kept.run("backup", "--to", "partial")
    note.unlink()

    restored = kept.run("restore", "partial", "--force")

    assert restored.code == 1 and f"instances/{max(UIDS)}/memories was not restored" in restored.err
    assert replaced(kept.root) == sorted({"memory", *UIDS} - {max(UIDS)})


def test_a_full_stdout_is_named(kept: Program) -> None:
    with open("/dev/full", "wb") as full:
        assert run_into(full.fileno(), kept, "ls", "--json") == (
            1,
            "memrelay: stdout: No space left on device; make room\n",
        )
