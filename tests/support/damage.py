"""Damage to store files as disks cause it."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.support.system import TestSystem

PAGE = 4096


def log_of(file: Path) -> Path:
    """Return the write-ahead log of a store."""
    return file.with_name(file.name + "-wal")


def flip_bytes(file: Path, start: int, end: int, count: int = 200) -> None:
    """Change the bytes between two offsets, each to a different value."""
    content, chance = bytearray(file.read_bytes()), random.Random(18)
    for at in chance.sample(range(start, min(end, len(content))), min(count, end - start)):
        content[at] ^= chance.randint(1, 255)
    file.write_bytes(content)


def replace_text(file: Path, was: bytes, now: bytes) -> None:
    """Replace a text in place and leave all other bytes intact."""
    content = file.read_bytes()
    assert len(was) == len(now) and was in content
    file.write_bytes(content.replace(was, now))


def flip_index(file: Path) -> None:
    """Change bytes of the full-text index only."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)) as connection:
        ((block,),) = connection.execute(
            "SELECT block FROM records_fts_data ORDER BY length(block) DESC LIMIT 1"
        )
    at = file.read_bytes().index(block[:500])
    flip_bytes(file, at, at + 500, 100)


def as_after_a_crash(file: Path) -> None:
    """Checkpoint the log into the file and leave an empty log, as after a crash before closing."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    log_of(file).write_bytes(b"nothing that counts")


def fill(system: TestSystem, uid: str, count: int = 1500) -> None:
    """Write records, by default enough for a checkpoint, and wait until they are stored."""
    text = "/write tea number %d, of which nothing may be lost: " + "leaf " * 50
    for start in range(0, count, 500):
        system.client.enter_together(
            uid, [text % number for number in range(start, min(start + 500, count))]
        )
    system.client.await_quiet(uid, 30)
