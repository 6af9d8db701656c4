"""The limits of zip files."""

import re
import struct
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA

import pytest

from memrelay.memory.transfer.importers import archives
from memrelay.memory.transfer.importers.archives import is_archive, open_archive, open_container
from memrelay.memory.transfer.importers.source import RefusedFile
from tests.support.chatgpt import write_zip

ALL = re.compile(r".*\.json")


def read(path: Path) -> dict[str, bytes]:
    found = {}
    with open_archive(path) as archive:
        for name in archive.names(ALL):
            with archive.open(name) as entry:
                found[name] = entry.read()
    return found


def test_the_entries_are_read_by_name(tmp_path: Path) -> None:
    entries = {"b/b.json": b"2", "a.json": b"1", "c.txt": b"3"}
    path = write_zip(tmp_path / "x.zip", entries, ZIP_DEFLATED)

    assert is_archive(path)
    assert read(path) == {"a.json": b"1", "b/b.json": b"2"}
    assert [one.name for one in tmp_path.iterdir()] == ["x.zip"]


@pytest.mark.parametrize(
    "name", ["/etc/a.json", "../a.json", "a/../../b.json", "..\\a.json", "C:\\a.json", "\\a.json"]
)
def test_a_name_that_leaves_the_archive_refuses_the_file(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": b"1", name: b"2"})

    with pytest.raises(RefusedFile, match=r"has an absolute name or `\.\.`"):
        read(path)


def test_an_archive_has_at_most_2_gib_unpacked(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": b"1", "b.json": b"2"})
    content = bytearray(path.read_bytes())
    for found in re.finditer(b"PK\x01\x02", content):
        struct.pack_into("<I", content, found.start() + 24, 2**30 + 1)
    path.write_bytes(content)

    with pytest.raises(RefusedFile, match="more than 2 GiB unpacked"):
        read(path)


def test_an_archive_expands_to_at_most_100_times_its_size(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": b"0" * (2 << 20)}, ZIP_DEFLATED)

    with pytest.raises(RefusedFile, match="more than 100 times its size"):
        read(path)


def test_a_folder_is_read_without_links_and_hidden_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for name in (outside / "a.json", folder / "b" / "b.json", folder / ".obsidian" / "c.json"):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(b"1")
    (folder / "link").symlink_to(outside, target_is_directory=True)
    (folder / "link.json").symlink_to(outside / "a.json")

    with open_container(folder) as container:
        assert container.names(ALL) == ["b/b.json"]
        with container.open("b/b.json") as file:
            assert file.read() == b"1"
    monkeypatch.setattr(archives, "MAX_FILES", 0)
    with pytest.raises(RefusedFile, match="has more than 0 files"), open_container(folder):
        pass


def test_an_encrypted_or_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": b"1" * 1000}, ZIP_DEFLATED)
    whole = path.read_bytes()

    encrypted = bytearray(whole)
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    for content, message in [
        (bytes(encrypted), "is encrypted"),
        (whole[:-30], "is damaged"),
        (whole.replace(b"a.json", b"b.json", 1), "is damaged"),
        (whole[:38] + b"\xff\xff" + whole[40:], "is damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(RefusedFile, match=message):
            read(path)


@pytest.mark.parametrize("method", [ZIP_DEFLATED, ZIP_LZMA])
def test_an_archive_with_damaged_bytes_is_refused(tmp_path: Path, method: int) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": bytes(range(256)) * 4}, method)
    content = bytearray(path.read_bytes())
    # After the local header (30 bytes and the name) and the properties of LZMA (9 bytes).
    for place in range(45, content.index(b"PK\x01\x02")):
        content[place] ^= 0xFF
    path.write_bytes(content)

    with pytest.raises(RefusedFile, match="is damaged"):
        read(path)


def test_an_entry_larger_than_its_header_says_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "x.zip", {"a.json": b"1" * (1 << 20)}, ZIP_DEFLATED)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x01\x02") + 24, 10)
    path.write_bytes(content)

    with pytest.raises(RefusedFile, match="is damaged"):
        read(path)
