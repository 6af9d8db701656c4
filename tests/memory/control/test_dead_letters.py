"""Dead letters in the control plane."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.control.catalog import Catalog
from memrelay.memory.control.dead_letters import MAX_LETTERS, DeadLetter, Trimmed, first_line
from memrelay.memory.control.system_file import MIGRATIONS
from tests.memory.builders import NOW
from tests.memory.control.catalogs import (
    ControlPlane,
    list_dead_letters,
    make_dead_letter,
    with_catalog,
)


def test_a_dead_letter_is_stored_byte_for_byte(control_plane: ControlPlane) -> None:
    everything = make_dead_letter("2-0", data=bytes(range(256)))._replace(
        agent="x\n", producer_id="\x00", hop="many", published=True
    )

    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add([everything, make_dead_letter(data=b"")]),
    )

    expected = everything._replace(producer_id="␀") if control_plane.url else everything
    assert list_dead_letters(control_plane) == [expected, make_dead_letter(data=b"")]


def test_the_oldest_letters_lose_their_content_beyond_the_bound(
    control_plane: ControlPlane,
) -> None:
    letters = [make_dead_letter(f"{number}-0", data=b"x" * 1000) for number in range(1, 101)]
    other = letters[0]._replace(pipeline="other")

    async def bury(catalog: Catalog) -> list[Trimmed]:
        trimmed = await catalog.dead_letters.add([other])
        for letter in letters:
            trimmed += await catalog.dead_letters.add([letter], 20_000)
        return trimmed

    trimmed = with_catalog(control_plane, bury)

    mine = list_dead_letters(control_plane)
    sizes = [len(letter.data) for letter in mine]
    assert (
        with_catalog(control_plane, lambda catalog: catalog.dead_letters.find("other", "1-0"))
        == other
    )
    assert [letter.id for letter in mine] == [letter.id for letter in letters]
    assert sizes == sorted(sizes) and 15_000 < sum(sizes) <= 20_000
    assert "worker.dead_letter_bytes" in mine[0].error and mine[-1] == letters[-1]
    assert sum(one.cut for one in trimmed) == sizes.count(0)


def test_the_oldest_letters_beyond_the_greatest_number_are_deleted(
    control_plane: ControlPlane,
) -> None:
    letters = [make_dead_letter(f"{number}-0", data=b"") for number in range(MAX_LETTERS + 1)]

    async def bury(catalog: Catalog) -> list[Trimmed]:
        trimmed: list[Trimmed] = []
        for start in range(0, len(letters), 5_000):  # each within the time of a transaction
            trimmed += await catalog.dead_letters.add(letters[start : start + 5_000])
        return trimmed

    (trimmed,) = with_catalog(control_plane, bury)

    left = with_catalog(control_plane, lambda catalog: catalog.dead_letters.count())[
        letters[0].pipeline
    ]
    assert (left, trimmed.deleted) == (MAX_LETTERS * 0.9, MAX_LETTERS * 0.1 + 1)


def test_dead_letters_are_listed_in_the_order_of_arrival(control_plane: ControlPlane) -> None:
    buried = [make_dead_letter(f"{12 - number}-0") for number in range(12)]

    with_catalog(control_plane, lambda catalog: catalog.dead_letters.add(buried))

    assert list_dead_letters(control_plane) == buried


def test_a_duplicate_dead_letter_keeps_the_first(control_plane: ControlPlane) -> None:
    first = make_dead_letter()
    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add([first, make_dead_letter(error="again")]),
    )

    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add(
            [make_dead_letter(error="and again", failed_at=NOW + 1)]
        ),
    )

    assert list_dead_letters(control_plane) == [first]


def test_a_dead_letter_from_another_entry_counts_as_another_attempt(
    control_plane: ControlPlane,
) -> None:
    first, other = make_dead_letter(error="first")._replace(entry="1-0"), make_dead_letter("2-0")
    again = first._replace(error="again", bundle="newer", failed_at=NOW + 1, entry="9-0")
    with_catalog(control_plane, lambda catalog: catalog.dead_letters.add([first, other]))

    for _ in range(2):  # the second time as after a crash
        with_catalog(control_plane, lambda catalog: catalog.dead_letters.add([again]))

    assert list_dead_letters(control_plane) == [again._replace(attempts=2), other]


def test_pages_skip_no_dead_letter_during_additions_and_removals(
    control_plane: ControlPlane,
) -> None:
    async def work(catalog: Catalog) -> list[str]:
        await catalog.dead_letters.add([make_dead_letter(f"{number}-0") for number in range(6)])
        first = await catalog.dead_letters.page(limit=3)
        await catalog.dead_letters.remove("a3d8f1b2", ["0-0", "2-0", "4-0", "5-0"])
        await catalog.dead_letters.add(
            [make_dead_letter("7-0"), make_dead_letter("3-0")._replace(entry="8-0")]
        )
        return [
            one.id
            for one in first + await catalog.dead_letters.page(after=first[-1].place, limit=3)
        ]

    assert with_catalog(control_plane, work) == ["0-0", "1-0", "2-0", "3-0", "7-0"]


def test_dead_letters_are_removed_by_pipeline_and_id(control_plane: ControlPlane) -> None:
    mine = [make_dead_letter(), make_dead_letter("2-0")]
    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add([*mine, mine[0]._replace(pipeline="other")]),
    )

    removed = with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.remove("a3d8f1b2", ["1-0", "x", "' OR 1=1 --"]),
    )

    assert removed == {"1-0"}
    assert list_dead_letters(control_plane) == mine[1:]
    assert with_catalog(control_plane, lambda catalog: catalog.dead_letters.count()) == {
        "a3d8f1b2": 1,
        "other": 1,
    }
    assert with_catalog(
        control_plane, lambda catalog: catalog.dead_letters.among("other", ["1-0", "2-0"])
    ) == {"1-0"}


def test_dead_letters_of_an_older_file_keep_their_order(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "system.db")) as older, older:
        for statement in MIGRATIONS[0]:
            older.execute(statement)
        rows = [
            ("a3d8f1b2", ident, "chat", b"\xff", "no JSON", "hash", NOW + at)
            for ident, at in (("2-0", 1), ("1-0", 0))
        ]
        older.executemany("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        older.execute("PRAGMA user_version = 1")

    assert list_dead_letters(ControlPlane(tmp_path)) == [
        DeadLetter(*row, entry=row[1]) for row in reversed(rows)
    ]


def test_a_dead_letter_belongs_to_its_pipeline(control_plane: ControlPlane) -> None:
    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add(
            [make_dead_letter(), make_dead_letter()._replace(pipeline="other")]
        ),
    )

    assert list_dead_letters(control_plane) == [make_dead_letter()]


@pytest.mark.parametrize("data", [None, object()])
def test_dead_letters_are_added_all_or_none(tmp_path: Path, data: Any) -> None:
    bad = make_dead_letter("2-0")._replace(data=data)

    with pytest.raises(sqlite3.Error):
        with_catalog(
            ControlPlane(tmp_path),
            lambda catalog: catalog.dead_letters.add([make_dead_letter(), bad]),
        )

    assert list_dead_letters(ControlPlane(tmp_path)) == []


def test_dead_letters_are_grouped_by_pipeline_and_first_line(control_plane: ControlPlane) -> None:
    long = "x" * 400
    letters = [
        make_dead_letter("1-0", "no JSON\nline 1", NOW),
        make_dead_letter("2-0", "no agent", NOW + 1),
        make_dead_letter("3-0", "no JSON\nline 2", NOW + 2)._replace(attempts=3),
        make_dead_letter("4-0", long, NOW + 3),
        make_dead_letter("5-0", "no JSON", NOW + 4)._replace(pipeline="other"),
        make_dead_letter("6-0", "", NOW + 5),
    ]
    with_catalog(control_plane, lambda catalog: catalog.dead_letters.add(letters))

    groups = with_catalog(control_plane, lambda catalog: catalog.dead_letters.groups(limit=10))
    mine = with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.groups(["a3d8f1b2"], before=groups[2].place, limit=1),
    )
    page = with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.page(["a3d8f1b2"], reason="no JSON", limit=10),
    )

    assert [(one.pipeline, one.reason, one.letters) for one in groups] == [
        ("a3d8f1b2", "", 1),
        ("other", "no JSON", 1),
        ("a3d8f1b2", "x" * 300, 1),
        ("a3d8f1b2", "no JSON", 2),
        ("a3d8f1b2", "no agent", 1),
    ]
    assert mine == [groups[3]]
    assert first_line(letters[0].error) == "no JSON" and first_line(long) == groups[2].reason
    assert (mine[0].attempts, mine[0].first_at, mine[0].last_at) == (3, NOW, NOW + 2)
    assert [one.id for one in page] == ["1-0", "3-0"]


def test_the_first_dead_letter_of_an_entry_includes_its_later_steps(
    control_plane: ControlPlane,
) -> None:
    idents = ["1-0", "10-0.2+0", "1-01", "10-0.1+0"]
    with_catalog(
        control_plane,
        lambda catalog: catalog.dead_letters.add([make_dead_letter(one) for one in idents]),
    )

    async def find(catalog: Catalog) -> list[Any]:
        return [
            await catalog.dead_letters.find_of_entry("a3d8f1b2", one)
            for one in ("1-0", "10-0", "2-0")
        ]

    found = with_catalog(control_plane, find)

    assert [None if one is None else one.id for one in found] == ["1-0", "10-0.2+0", None]


def test_the_latest_letters_of_a_swarm_are_read_with_their_short_data(
    control_plane: ControlPlane,
) -> None:
    letters = [make_dead_letter(f"{number}-0", data=b"x" * number) for number in range(1, 5)]
    letters[1] = letters[1]._replace(swarm="side")
    with_catalog(control_plane, lambda catalog: catalog.dead_letters.add(letters))

    async def read(catalog: Catalog) -> tuple[list[str], list[bytes]]:
        found = await catalog.dead_letters.latest("a3d8f1b2", "chat", limit=2)
        data = await catalog.dead_letters.read_data([one.place for one in found], 3)
        return [one.id for one in found], list(data.values())

    assert with_catalog(control_plane, read) == (["4-0", "3-0"], [b"xxx"])


def test_the_version_changes_with_each_change_of_any_program(control_plane: ControlPlane) -> None:
    async def watch(catalog: Catalog) -> list[tuple[int, int]]:
        versions = [await catalog.dead_letters.read_version() for _ in range(2)]
        await catalog.dead_letters.add([make_dead_letter()])
        versions.append(await catalog.dead_letters.read_version())
        async with Catalog(*control_plane) as other:
            await other.dead_letters.add([make_dead_letter()._replace(entry="9-0")])
        versions.append(await catalog.dead_letters.read_version())
        return versions

    versions = with_catalog(control_plane, watch)

    assert versions[0] == versions[1]
    assert len(set(versions)) == 3
