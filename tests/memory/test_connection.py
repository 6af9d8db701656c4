"""Store files: made whole, migrated when old, refused when newer, foreign or damaged."""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

from memrelay.memory.errors import MemoryFault, StoreBroken, StoreBusy
from memrelay.memory.memory_id import path_of
from memrelay.memory.sqlite.connection import APPLICATION_ID, migrations, open_store_file
from tests.memory.builders import (
    MEMORY_ID,
    assert_sound,
    contents,
    find,
    make_store,
    read_all,
    write_all,
)

CHECKOUT = Path(__file__).resolve().parents[2]

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
tempfile.tempdir = "/proc/nowhere"   # where a machine has none, nothing of it is asked for
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


def file_with_records(root: Path) -> Path:
    store = make_store(root)
    write_all(store, *["tea " * 500] * 50)
    store.close()
    return Path(store.path)


def test_a_store_is_made_where_no_folder_for_temporary_files_can_be_written_to(
    tmp_path: Path,
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", OPENING_WITHOUT_TEMPORARY_FOLDER, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (told.stdout, told.stderr) == ("made\n", "")


def test_a_new_store_has_todays_schema_a_log_and_full_durability(tmp_path: Path) -> None:
    connection = open_store_file(tmp_path / "a" / "b.db")

    assert connection.pragma("user_version") == len(migrations())
    assert connection.pragma("application_id") == APPLICATION_ID
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 2


def test_making_a_store_leaves_no_draft_behind_and_nothing_for_others_to_read(
    tmp_path: Path,
) -> None:
    make_store(tmp_path).close()

    folder = path_of(tmp_path, MEMORY_ID).parent
    assert [path.name for path in folder.iterdir()] == ["memories.db"]
    assert folder.stat().st_mode & 0o077 == (folder / "memories.db").stat().st_mode & 0o077 == 0


def test_an_older_file_is_migrated_to_the_same_schema(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    set_pragma(old, "application_id", APPLICATION_ID)
    open_store_file(new).close()

    open_store_file(old).close()

    assert schema(old) == schema(new)
    assert_sound(old)


def test_opening_twice_migrates_once_and_keeps_everything(tmp_path: Path) -> None:
    path = file_with_records(tmp_path)
    before = schema(path)

    store = make_store(tmp_path)

    assert len(read_all(store)) == 50
    store.close()
    assert schema(path) == before


def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = file_with_records(tmp_path)
    set_pragma(path, "user_version", len(migrations()) + 1)
    before = path.read_bytes()

    with pytest.raises(StoreBroken, match=r"memories\.db was written by a newer Memrelay"):
        make_store(tmp_path)

    assert path.read_bytes() == before


def test_a_foreign_sqlite_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = path_of(tmp_path, MEMORY_ID)
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
def test_what_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    path = path_of(tmp_path, MEMORY_ID)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)

    assert path.read_bytes() == content


@pytest.mark.parametrize("kept", [100, 4096, 4096 * 5, 4096 * 20, -4096])
def test_a_file_cut_short_is_a_broken_store(tmp_path: Path, kept: int) -> None:
    path = file_with_records(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)


def test_a_folder_in_the_place_of_a_store_is_a_broken_store(tmp_path: Path) -> None:
    path_of(tmp_path, MEMORY_ID).mkdir(parents=True)

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        make_store(tmp_path)


def test_a_file_in_the_place_of_a_folder_is_told_as_a_fault_of_memory(tmp_path: Path) -> None:
    (tmp_path / "instances").write_text("in the way")

    with pytest.raises(MemoryFault, match=r"instances"):
        make_store(tmp_path)


def test_a_full_disk_at_making_a_store_is_busy_and_leaves_no_draft(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPENING_WITHOUT_SPACE, str(tmp_path)]

    ran = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)

    assert ran.stdout == "busy\n", ran.stderr
    assert [path.name for path in tmp_path.glob("instances/*/*") if path.suffix == ""] == []


def test_a_store_that_could_not_be_opened_can_be_when_it_is_repaired(tmp_path: Path) -> None:
    path = file_with_records(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096])
    with pytest.raises(StoreBroken):
        make_store(tmp_path)

    path.write_bytes(whole)

    assert len(contents(read_all(make_store(tmp_path)))) == 50


def test_a_statement_is_planned_once_whatever_its_values_are(tmp_path: Path) -> None:
    """SQLite would plan it anew for each value that its choice of an index could hang on; that
    costs as much as ten records."""
    store, planned = make_store(tmp_path), Counter[str]()
    write_all(store, "tea", "milk", "honey")

    def note(event: dict[str, Any]) -> None:
        planned[event["sql"]] += event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"]

    store._connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    with store.transaction() as tx:
        for kind in ("observation", "fact", "summary"):
            read_all(tx, filters={"kind": kind}, limit=10)
            find(tx, "tea", filters={"kind": kind})
    store.close()

    assert any("FROM records AS r" in sql for sql in planned) and any(
        "records_fts MATCH" in sql for sql in planned
    )
    assert not any(planned.values()), planned


def test_busy_and_broken_are_faults_of_memory() -> None:
    assert issubclass(StoreBusy, MemoryFault)
    assert issubclass(StoreBroken, MemoryFault)


def test_migrations_are_numbered_without_a_gap() -> None:
    folder = CHECKOUT / "memory" / "sqlite" / "migrations"

    names = sorted(path.name for path in folder.glob("*.sql"))

    assert [int(name[:4]) for name in names] == list(range(1, len(migrations()) + 1))


WITHOUT_HANDLES = """
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
    os.close(19)   # enough to look, not to work
try:
    make_store(Path(sys.argv[1]))
except MemoryFault as fault:
    os.write(1, f"{type(fault).__name__}: {fault}".encode())
"""


def test_a_store_that_no_handle_is_left_for_is_told_as_that(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", WITHOUT_HANDLES, str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        check=True,
    )

    assert (
        told.stdout.startswith(b"StoreBusy: ")
        and b"Too many open files; raise the limit (ulimit -n)" in told.stdout
    )


AS_SOMEBODY_ELSE = """
import os, sys
from pathlib import Path
from memrelay.memory.errors import MemoryFault
from memrelay.memory.sqlite.connection import migrations
from tests.memory.builders import make_store
migrations()   # which that user need not be able to read
os.setuid(65534)
try:
    make_store(Path(sys.argv[1])).take_over(1)
except MemoryFault as fault:
    print(f"{type(fault).__name__}: {fault}")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.parametrize(
    ("folder", "file", "why"),
    [
        (0o777, 0o600, "Permission denied; allow this user to write to it"),
        (0o777, 0o444, "Permission denied; allow this user to write to it"),
        (0o755, 0o666, "allow this user to write to its folder"),
    ],
)
def test_a_store_that_this_user_may_not_write_to_is_told_as_that(
    folder: int, file: int, why: str
) -> None:
    with tempfile.TemporaryDirectory() as root:  # pytest's own folders are its user's alone
        os.chmod(root, 0o755)
        store = make_store(Path(root))
        store.close()
        path = Path(store.path)
        for above in list(path.parents)[:3]:
            above.chmod(0o755)
        path.parent.chmod(folder)
        path.chmod(file)
        told = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY_ELSE, root],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
        )

    assert told.stdout.startswith("StoreBroken: ") and why in told.stdout, told.stderr
    assert "move it away" not in told.stdout
