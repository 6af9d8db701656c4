"""The control plane in PostgreSQL: `memrelay move-storage`, backups, and what a user sees."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay import open_store
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.errors import StoreBroken
from tests.support.postgres import Postgres
from tests.support.program import Program

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
VARIABLE = "MEMRELAY_STORAGE__URL"


@pytest.fixture
def program() -> Iterator[Program]:
    """Yield a program with a pipeline and a key in system.db."""
    with Program() as program:
        assert program.run("deploy", SAMPLE, "--uid", "tea").code == 0
        program.run("keys", "create", "ann", "--scope", "read", "--pipeline", "tea")
        yield program


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.create_database()


def test_the_control_plane_moves_once(program: Program, url: str) -> None:
    moved = program.run("move-storage", **{VARIABLE: url})
    (program.root / "system.db").unlink()

    assert moved.out == (
        "moved to PostgreSQL: 1 active pipeline, 1 version, 0 dead letters, 1 key, 0 sessions, "
        "0 stores\n"
    )
    assert "no longer used" in moved.err
    assert [one["pipeline_uid"] for one in program.run("ls", **{VARIABLE: url}).lines] == ["tea"]
    assert [one["name"] for one in program.run("keys", "ls", **{VARIABLE: url}).lines] == ["ann"]


def test_a_second_move_requires_force(program: Program, url: str) -> None:
    program.run("move-storage", **{VARIABLE: url})

    again = program.run("move-storage", **{VARIABLE: url})
    forced = program.run("move-storage", "--force", **{VARIABLE: url})

    assert again.code == 1 and "--force" in again.err
    assert forced.code == 0
    assert len(program.run("ls", **{VARIABLE: url}).lines) == 1


def test_a_backup_has_the_control_plane_and_restores_it_to_either_place(
    program: Program, url: str, postgres: Postgres
) -> None:
    program.run("move-storage", **{VARIABLE: url})
    (program.root / "system.db").unlink()
    saved, other = program.folder / "saved", postgres.create_database()

    backup = program.run("backup", "--to", saved, **{VARIABLE: url})
    to_postgres = program.run("restore", saved, **{VARIABLE: other})
    to_file = program.run("restore", saved)

    assert [backup.code, to_postgres.code, to_file.code] == [0, 0, 0], (backup, to_postgres)
    assert "system.db: restored in PostgreSQL" in to_postgres.out
    for environment in ({VARIABLE: other}, {}):
        assert [one["name"] for one in program.run("keys", "ls", **environment).lines] == ["ann"]


def test_a_move_without_an_address_or_a_file_says_what_is_missing(
    program: Program, url: str
) -> None:
    assert "set storage.url" in program.run("move-storage").err
    (program.root / "system.db").unlink()
    assert "nothing to move" in program.run("move-storage", **{VARIABLE: url}).err


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("mysql://user:secret@host/db", "must be empty or postgresql://"),
        ("postgresql://user:secret@127.0.0.1:1/db", "it is retried"),
    ],
)
def test_a_wrong_address_is_reported_without_its_password(
    program: Program, wrong: str, reason: str
) -> None:
    ended = program.run("ls", **{VARIABLE: wrong})

    assert ended.code == 1 and reason in ended.err
    assert "secret" not in ended.err


def test_doctor_names_postgresql(program: Program, url: str) -> None:
    program.run("move-storage", **{VARIABLE: url})

    findings = program.run("doctor", "--json", **{VARIABLE: url}).lines

    (catalog,) = [one for one in findings if one["check"] == "catalog"]
    assert catalog["text"] == "PostgreSQL (storage.url) has 1 active pipeline"


def test_the_stores_move_too_and_a_backup_is_the_way_back(
    program: Program, url: str, tmp_path: Path
) -> None:
    path = store_path(program.root, "instances/tea/memories")
    with open_store(path) as store:
        store.records.create("Ada likes tea")
    moved = program.run("move-storage", **{VARIABLE: url})
    exported = program.run("export", "tea", "--records", **{VARIABLE: url})
    there = {VARIABLE: url, "MEMRELAY_MEMORY__ROOT": str(tmp_path / "other")}
    elsewhere = program.run("export", "tea", "--records", **there)
    refused = program.run("restore", tmp_path / "saved")

    assert moved.out.endswith("1 store\n"), moved
    assert "Ada likes tea" in exported.out and exported.code == 0
    assert elsewhere.out.splitlines()[1:] == exported.out.splitlines()[1:]
    with pytest.raises(StoreBroken, match="journal is in PostgreSQL"), open_store(path):
        pass

    assert refused.code == 1
    assert program.run("backup", "--to", tmp_path / "saved", **there).code == 0
    assert program.run("restore", tmp_path / "saved", "--force").code == 0
    with open_store(path) as store:
        assert [record.content for record in store.records.list().items] == ["Ada likes tea"]


def test_a_restored_store_is_the_content_of_its_journal(
    program: Program, url: str, tmp_path: Path
) -> None:
    path = store_path(program.root, "instances/tea/memories")
    with open_store(path) as store:
        store.records.create("before")
    saved = tmp_path / "saved"
    assert program.run("backup", "--to", saved).code == 0
    with open_store(path) as store:
        store.records.create("after")
    assert program.run("move-storage", **{VARIABLE: url}).code == 0

    restored = program.run("restore", saved, "tea", "--force", **{VARIABLE: url})

    exported = program.run("export", "tea", "--records", **{VARIABLE: url})
    assert restored.code == 0, restored
    assert "before" in exported.out and "after" not in exported.out
