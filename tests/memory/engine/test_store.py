"""Store transactions are atomic under failures, kills and full disks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import MAX_LOG_BYTES
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.records.writing import write
from tests.memory.builders import (
    MEMORY_ID,
    append_to,
    assert_sound,
    contents,
    find,
    make_record,
    make_store,
    read_all,
    write_all,
)

CHECKOUT = Path(__file__).resolve().parents[3]

DYING_WRITER = """
import os, signal, sys
from pathlib import Path
from memrelay.memory.records.writing import write
from tests.memory.builders import find, make_record, make_store, write_all
store = make_store(Path(sys.argv[1]))
write_all(store, "committed tea")
store.begin()
for number in range(20_000):
    write(store, make_record(f"lost tea {number} " + "x" * 100))
find(store, "tea")
os.kill(os.getpid(), signal.SIGKILL)
"""

WRITER_WITHOUT_SPACE = """
import resource, sys
from pathlib import Path
from memrelay.memory.errors import StoreBusy
from memrelay.memory.records.writing import write
from tests.memory.builders import make_record, make_store, write_all
store = make_store(Path(sys.argv[1]))
write_all(store, "before")
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    write_all(store, "x" * 1_000_000)
except StoreBusy:
    print("busy")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write_all(store, "after")
"""


def run_program(source: str, root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", source, str(root)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)


def test_an_exception_rolls_the_transaction_back(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        write(tx, make_record("lost"))
        append_to(tx, "lost", guid=guid)
        find(tx, "lost")
        1 / 0  # noqa: B018  any exception

    assert not store.in_transaction
    assert contents(read_all(store)) == ["tea"]
    assert_sound(store.path)


def test_a_failing_insert_rolls_back_and_the_next_transaction_works(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    (guid,) = write_all(store, "tea")

    with pytest.raises(apsw.ConstraintError), store.transaction() as tx:
        write(tx, make_record("lost"))
        write(tx, make_record("the same guid again", guid=guid))

    write_all(store, "after")
    assert contents(read_all(store)) == ["tea", "after"]
    assert_sound(store.path)


def test_a_rollback_without_a_transaction_does_nothing(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")

    store.rollback()

    assert contents(read_all(store)) == ["tea"]


def test_closing_rolls_back_the_open_transaction(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    store.begin()
    write(store, make_record("lost"))
    read_all(store)

    store.close()

    assert read_all(make_store(tmp_path)) == []


def test_closing_leaves_one_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")

    store.close()

    assert [path.name for path in Path(store.path).parent.iterdir()] == ["memories.db"]


def test_a_store_locked_by_another_program_is_busy_until_it_is_released(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    other = apsw.Connection(store.path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy, match="locked"):
        store.begin()
    assert not store.in_transaction
    other.execute("ROLLBACK")
    write_all(store, "tea")

    assert contents(read_all(store)) == ["tea"]


def test_opening_a_store_locked_exclusively_by_another_program_is_busy(tmp_path: Path) -> None:
    path = Path(make_store(tmp_path).path)
    other = apsw.Connection(str(path))
    other.pragma("locking_mode", "exclusive")
    other.execute("BEGIN EXCLUSIVE")

    with pytest.raises(StoreBusy, match="locked"):
        make_store(tmp_path)

    other.close()
    assert read_all(make_store(tmp_path)) == []


def test_a_killed_writer_leaves_only_committed_records(tmp_path: Path) -> None:
    died = run_program(DYING_WRITER, tmp_path)

    store = make_store(tmp_path)

    assert died.returncode == -signal.SIGKILL, died.stderr
    assert contents(read_all(store)) == contents(find(store, "tea")) == ["committed tea"]
    assert_sound(store.path)


def test_a_full_disk_is_reported_as_busy_and_loses_only_that_transaction(tmp_path: Path) -> None:
    ran = run_program(WRITER_WITHOUT_SPACE, tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "busy\n"
    store = make_store(tmp_path)
    assert contents(read_all(store)) == ["before", "after"]
    assert_sound(store.path)


def test_a_damaged_page_is_reported_as_a_broken_store_with_its_file(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, *["tea " * 500] * 50)
    store.close()
    path = store_path(tmp_path, MEMORY_ID)
    with open(path, "r+b") as file:
        file.seek(4096 * 20)
        file.write(os.urandom(path.stat().st_size - 4096 * 20))

    with pytest.raises(StoreBroken, match=r"memories\.db"):
        store = make_store(tmp_path)
        with store.transaction() as tx:
            read_all(tx)
            find(tx, "tea")


def test_a_log_that_a_foreign_reader_kept_is_truncated_when_it_has_left(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea")
    log = Path(f"{store.path}-wal")
    reader = apsw.Connection(store.path)
    reader.execute("BEGIN; SELECT * FROM records")
    text = "x" * (MAX_LOG_BYTES // 8)
    for _ in range(9):
        write_all(store, text)

    store.probe()
    assert log.stat().st_size > MAX_LOG_BYTES
    reader.close()
    store.probe()

    assert log.stat().st_size == 0
    write_all(store, "milk")
    assert contents(find(store, "milk")) == ["milk"]
