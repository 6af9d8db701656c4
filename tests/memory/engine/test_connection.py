"""Store files: created completely, migrated if old, rejected if newer, foreign or damaged."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.engine.connection import APPLICATION_ID, migrations, open_store_file
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy
from tests.memory.builders import (
    MEMORY_ID,
    assert_sound,
    contents,
    find,
    make_store,
    read_all,
    write_all,
)

CHECKOUT = Path(__file__).resolve().parents[3]

OPENING_WITHOUT_SPACE = """
import resource, sys
from pathlib import Path
from memrelay.memory.errors import StoreBusy
from tests.memory.builders import make_store
make_store(Path(sys.argv[1]), "instances/a3d8f1b2/first")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    make_store(Path(sys.argv[1]))
except StoreBusy:
    print("busy")
"""

OPENING_WITHOUT_TEMPORARY_FOLDER = """
import sys, tempfile
from pathlib import Path
from tests.memory.builders import make_store
tempfile.tempdir = "/proc/nowhere"   # a folder that cannot exist
make_store(Path(sys.argv[1]))
print("made")
"""


def schema(path: Path) -> set[tuple[str, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
    finally:
        connection.close()


def set_pragma(path: Path, name: str, value: int) -> None:
    connection = apsw.Connection(str(path))
    connection.pragma(name, value)
    connection.close()


def make_file_with_records(root: Path) -> Path:
    store = make_store(root)
    write_all(store, *["tea " * 500] * 50)
    store.close()
    return Path(store.path)


def test_a_store_is_created_without_a_writable_temporary_folder(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPENING_WITHOUT_TEMPORARY_FOLDER, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == ("made\n", "")


def test_a_new_store_has_the_current_schema_a_wal_and_full_durability(tmp_path: Path) -> None:
    connection = open_store_file(tmp_path / "a" / "b.db")

    assert connection.pragma("user_version") == len(migrations())
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2


def test_creating_a_store_leaves_no_draft_and_no_access_for_other_users(
    tmp_path: Path,
) -> None:
    make_store(tmp_path).close()

    folder = store_path(tmp_path, MEMORY_ID).parent
    assert [path.name for path in folder.iterdir()] == ["memories.db"]
    assert folder.stat().st_mode & 0o077 == (folder / "memories.db").stat().st_mode & 0o077 == 0


def test_an_older_file_is_migrated_to_the_same_schema(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    set_pragma(old, "application_id", APPLICATION_ID)
    open_store_file(new).close()

    open_store_file(old).close()

    assert schema(old) == schema(new)
    assert_sound(old)


def test_reopening_migrates_nothing_and_keeps_all_records(tmp_path: Path) -> None:
    path = make_file_with_records(tmp_path)
    before = schema(path)

    store = make_store(tmp_path)

    assert len(read_all(store)) == 50
    store.close()
    assert schema(path) == before


def test_a_newer_file_is_rejected_unchanged(tmp_path: Path) -> None:
    path = make_file_with_records(tmp_path)
    set_pragma(path, "user_version", len(migrations()) + 1)
    before = path.read_bytes()

    with pytest.raises(StoreBroken, match=r"memories\.db was written by a newer Memrelay"):
        make_store(tmp_path)

    assert path.read_bytes() == before


def test_a_foreign_sqlite_file_is_rejected_unchanged(tmp_path: Path) -> None:
    path = store_path(tmp_path, MEMORY_ID)
    path.parent.mkdir(parents=True)
    foreign = apsw.Connection(str(path))
    foreign.execute("CREATE TABLE records(row); INSERT INTO records VALUES (1)")
    foreign.close()
    before = path.read_bytes()

    with pytest.raises(StoreBroken, match="is not a Memrelay store"):
        make_store(tmp_path)

    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"hello " * 10_000, b"SQLite format 3\x00", b"\x00" * 8192]
)
def test_a_file_that_is_not_a_database_is_rejected_unchanged(
    tmp_path: Path, content: bytes
) -> None:
    path = store_path(tmp_path, MEMORY_ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("kept", [100, 4096, 4096 * 5, 4096 * 20, -4096])
def test_a_truncated_file_is_a_broken_store(tmp_path: Path, kept: int) -> None:
    path = make_file_with_records(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)


def test_a_folder_in_place_of_a_store_is_a_broken_store(tmp_path: Path) -> None:
    store_path(tmp_path, MEMORY_ID).mkdir(parents=True)

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)


def test_a_file_in_place_of_a_folder_is_reported_as_a_memory_fault(tmp_path: Path) -> None:
    (tmp_path / "instances").write_text("in the way")

    with pytest.raises(MemoryFault, match=r"instances"):
        make_store(tmp_path)


def test_a_full_disk_during_creation_is_busy_and_leaves_no_draft(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENING_WITHOUT_SPACE, str(tmp_path)]

    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)

    assert ran.stdout == "busy\n", ran.stderr
    assert [path.name for path in tmp_path.glob("instances/*/*") if path.suffix == ""] == []


def test_a_repaired_store_can_be_opened(tmp_path: Path) -> None:
    path = make_file_with_records(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096])
    with pytest.raises(StoreBroken):
        make_store(tmp_path)

    path.write_bytes(whole)

    assert len(contents(read_all(make_store(tmp_path)))) == 50


def test_a_statement_is_planned_once_for_all_values(tmp_path: Path) -> None:
    """SQLite would prepare the statement again for each value that could change its choice of an
    index. That costs as much as ten records."""
    store, planned = make_store(tmp_path), Counter[str]()
    write_all(store, "tea", "milk", "honey")

    def count_reprepares(event: dict[str, Any]) -> None:
        planned[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"]

    store._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, count_reprepares)
    with store.transaction() as tx:
        for kind in ("observation", "fact", "summary"):
            read_all(tx, filters={"kind": kind}, limit=10)
            find(tx, "tea", filters={"kind": kind})
    store.close()

    assert any("FROM records AS r" in sql for sql in planned) and any(
        "records_fts MATCH" in sql for sql in planned
    )
    assert not any(planned.values()), planned


def test_busy_and_broken_stores_are_memory_faults() -> None:
    assert issubclass(StoreBusy, MemoryFault)
    assert issubclass(StoreBroken, MemoryFault)


def test_migrations_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in (CHECKOUT / "memrelay").rglob("migrations/*.sql"))

    assert [int(name[:4]) for name in names] == list(range(1, len(migrations()) + 1))


OPENING_WITHOUT_HANDLES = """
import os, resource, sys
from pathlib import Path
from memrelay.memory.errors import MemoryFault
from tests.memory.builders import make_store
make_store(Path(sys.argv[1])).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
try:
    while True:
        os.open(os.devnull, os.O_RDONLY)
except OSError:
    os.close(19)   # one handle: enough to check the file, too few to open the store
try:
    make_store(Path(sys.argv[1]))
except MemoryFault as fault:
    os.write(1, f"{type(fault).__name__}: {fault}".encode())
"""


def test_a_store_without_free_file_handles_is_reported_as_busy(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPENING_WITHOUT_HANDLES, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    )

    assert (
        ran.stdout.startswith(b"StoreBusy: ")
        and b"Too many open files; raise the limit (ulimit -n)" in ran.stdout
    )


OPENING_AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
from memrelay.memory.errors import MemoryFault
from memrelay.memory.engine.connection import migrations
from tests.memory.builders import make_store
migrations()   # read before the user changes
os.setuid(65534)
try:
    make_store(Path(sys.argv[1])).take_over(1)
except MemoryFault as fault:
    print(f"{type(fault).__name__}: {fault}")
"""


READ_ONLY_FOR_A_WHILE = """
import os, sys
from pathlib import Path
from memrelay.memory.errors import StoreBroken
from memrelay.memory.engine.connection import migrations
from tests.memory.builders import make_store
migrations()   # read before the user changes
os.setuid(65534)
store = make_store(Path(sys.argv[1]))
path = Path(store.path)
store.close()
path.chmod(0o444)
try:
    make_store(Path(sys.argv[1])).take_over(1)
except StoreBroken as fault:
    print(fault, flush=True)
print(*(oct(Path(f"{path}{end}").stat().st_mode) for end in ("-wal", "-shm")), flush=True)
path.chmod(0o600)
make_store(Path(sys.argv[1])).take_over(1)
print("written")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")
def test_a_store_that_was_read_only_can_be_used_again() -> None:
    with tempfile.TemporaryDirectory() as root:  # pytest's folders are private to its user
        os.chmod(root, 0o777)
        ran = subprocess.run(
            [sys.executable, "-c", READ_ONLY_FOR_A_WHILE, root],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
        )

    refused, modes, end = ran.stdout.splitlines() or [ran.stderr, "", ""]
    assert "allow this user to write to it" in refused
    assert (modes, end) == ("0o100444 0o100444", "written"), ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another user")
@pytest.mark.parametrize(
    ("folder", "file", "why"),
    [
        (0o777, 0o600, "Permission denied; allow this user to write to it"),
        (0o777, 0o444, "Permission denied; allow this user to write to it"),
        (0o755, 0o666, "allow this user to write to its folder"),
    ],
)
def test_a_store_without_write_permission_is_reported_as_broken(
    folder: int, file: int, why: str
) -> None:
    with tempfile.TemporaryDirectory() as root:  # pytest's folders are private to its user
        os.chmod(root, 0o755)
        store = make_store(Path(root))
        store.close()
        path = Path(store.path)
        for above in list(path.parents)[:3]:
            above.chmod(0o755)
        path.parent.chmod(folder)
        path.chmod(file)
        ran = subprocess.run(
            [sys.executable, "-c", OPENING_AS_ANOTHER_USER, root],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
        )

    assert ran.stdout.startswith("StoreBroken: ") and why in ran.stdout, ran.stderr
    assert "move it away" not in ran.stdout
