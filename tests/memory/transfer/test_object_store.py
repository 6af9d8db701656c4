"""Backups in an object store: parts, names, damage, and which ones are kept."""

import time
from pathlib import Path

import pytest

from memrelay.memory.errors import BadBackup
from memrelay.memory.transfer.backup import LocalFiles, Manifest, back_up, read_manifest
from memrelay.memory.transfer.backup_times import choose_surplus, format_name
from memrelay.memory.transfer.object_store import Backups
from tests.memory.builders import NOW
from tests.memory.control.catalogs import ControlPlane, deploy

DAY_MS = 86_400_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a backup with only a control plane."""
    return make_backup(tmp_path, "saved", NOW)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/objects"


def make_backup(tmp_path: Path, name: str, made_at: int) -> Path:
    root, folder = tmp_path / "root", tmp_path / name
    deploy(ControlPlane(root))
    about = Manifest(made_at, "1", [], [], {})
    back_up(root, folder, [], about, system=root / "system.db", files=LocalFiles(root))
    return folder


def test_a_backup_comes_back_in_parts_as_it_was(folder: Path, url: str, tmp_path: Path) -> None:
    name = Backups(url, part_bytes=10_000).upload(folder)

    Backups(url).download(name, tmp_path / "copy")

    assert name == format_name(read_manifest(folder).made_at)
    assert len(list((tmp_path / "objects" / name).glob("system.db.*"))) > 3
    for file in folder.iterdir():
        assert (tmp_path / "copy" / file.name).read_bytes() == file.read_bytes()


def test_a_changed_part_is_named_and_not_restored(folder: Path, url: str, tmp_path: Path) -> None:
    name = Backups(url, part_bytes=10_000).upload(folder)
    part = tmp_path / "objects" / name / "system.db.1"
    part.write_bytes(part.read_bytes()[:-1] + b"?")

    with pytest.raises(BadBackup, match=rf"{name}/system\.db\.1 is damaged"):
        Backups(url).download(name, tmp_path / "copy")


def test_an_interrupted_upload_is_no_backup_and_is_deleted_after_a_day(
    folder: Path, url: str, tmp_path: Path
) -> None:
    backups = Backups(url)
    name = backups.upload(folder)
    (tmp_path / "objects" / name / "index.json").unlink()

    assert backups.names() == []
    assert backups.abandoned(NOW / 1000 + 3600) == []
    assert backups.abandoned(NOW / 1000 + 100_000) == [name]
    backups.delete(name)
    assert backups.abandoned(time.time()) == []


def test_an_unknown_backup_is_reported_with_the_newest_ones(
    folder: Path, url: str, tmp_path: Path
) -> None:
    name = Backups(url).upload(folder)

    with pytest.raises(BadBackup, match=f"no backup 20200101T000000Z; the newest are: {name}"):
        Backups(url).download("20200101T000000Z", tmp_path / "copy")


@pytest.mark.parametrize("wrong", ["ftp://host/x", "s3://", "nonsense://x"])
def test_a_wrong_url_is_refused(wrong: str) -> None:
    with pytest.raises(BadBackup, match="cannot be used"):
        Backups(wrong)


def test_the_newest_backup_of_each_day_and_week_is_kept() -> None:
    names = [f"202611{day:02}T{hour:02}0000Z" for day in range(1, 29) for hour in (6, 18)]

    surplus = choose_surplus(names, days=3, weeks=2)

    # The 22nd is a Sunday, the last day of its week.
    kept = ["20261122T180000Z", *[f"202611{day}T180000Z" for day in (26, 27, 28)]]
    assert sorted(set(names) - set(surplus)) == kept
    assert choose_surplus(names[:1], days=0, weeks=0) == []
    assert choose_surplus([], days=1, weeks=1) == []
