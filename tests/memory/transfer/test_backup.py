"""A restored store replaces the old one completely, or not at all."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from memrelay.memory.engine.copy import inspect
from memrelay.memory.engine.disk import draft_file
from memrelay.memory.errors import StoreBusy
from memrelay.memory.transfer.backup import BackedUpFile, replace, restore_file
from tests.memory.builders import make_store, write_all


def contents(path: Path) -> list[str]:
    with closing(apsw.Connection(str(path))) as connection:
        return [
            content for (content,) in connection.execute("SELECT content FROM records ORDER BY row")
        ]


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Limit the size of every file. This simulates a full disk without root rights."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def leave_interrupted_restore(path: Path, scratch: Path, *texts: str) -> None:
    """Leave the files of a killed restore: a draft whose WAL has commits."""
    scratch.mkdir()
    store = make_store(scratch)
    write_all(store, *texts)
    path.parent.mkdir(parents=True)
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{store.path}{suffix}", path.with_name(f".{path.name}.restored{suffix}"))
    store.close()


def test_a_restore_contains_nothing_of_an_interrupted_one(tmp_path: Path) -> None:
    saved, root = tmp_path / "saved", tmp_path / "root"
    saved.mkdir()
    store = make_store(saved)
    write_all(store, "kept")
    store.close()
    path = root / Path(store.path).relative_to(saved)
    leave_interrupted_restore(path, tmp_path / "scratch", "other", "texts")

    restore_file(root, saved, BackedUpFile(store.memory_id, 0, "", "", 1), force=False)

    assert (contents(path), inspect(path).faults) == (["kept"], [])
    assert [found.name for found in path.parent.iterdir() if found.name.startswith(".")] == []


def test_a_failed_replacement_reports_the_disk_and_keeps_the_old_file(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    write_all(store, "before")
    store.close()
    path = Path(store.path)

    with pytest.raises(StoreBusy, match="check the disk"), draft_file(path, "restored") as draft:
        shutil.copyfile(path, draft)
        with limit_file_size(1000):
            replace(path, draft)

    assert (contents(path), [found.name for found in path.parent.glob(".*")]) == (["before"], [])


def test_a_replacement_whose_wal_does_not_fit_keeps_the_old_file(tmp_path: Path) -> None:
    store, other = make_store(tmp_path / "here"), make_store(tmp_path / "other")
    write_all(store, "before")
    store.close()
    write_all(other, "x" * 100_000)
    path = Path(store.path)

    with pytest.raises(StoreBusy, match="check the disk"), draft_file(path, "salvaged") as draft:
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{other.path}{suffix}", f"{draft}{suffix}")
        other.close()
        with limit_file_size(
            max(draft.stat().st_size, Path(f"{draft}-wal").stat().st_size) + 20_000
        ):
            replace(path, draft)

    assert contents(path) == ["before"]
