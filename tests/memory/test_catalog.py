"""The control plane: bundles and dead letters in system.db, which several processes open at
once."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.control.catalog import Catalog, Deployed, Swapped
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.memory.control.precondition import ANYTHING, NOTHING, SOMETHING, Precondition, over
from memrelay.memory.control.system_file import BUNDLES_AND_DEAD_LETTERS, MIGRATIONS
from memrelay.memory.errors import NotAsExpected, StoreBroken, StoreBusy
from memrelay.memory.memory_id import path_of
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import NOW
from tests.support.waiting import wait_for

CHECKOUT = Path(__file__).resolve().parents[2]

DEPLOYING_PROGRAM = """
import asyncio, sys
from contextlib import closing
from pathlib import Path
from tests.memory.test_catalog import make_letter
from memrelay.memory.control.catalog import Catalog

async def main(root, name):
    for number in range(20):
        async with Catalog(root) as catalog:
            await catalog.deploy("shared", "tea", f"{name}{number}", b"{}", 1)
            await catalog.deploy(f"{name}{number}", "milk", f"{name}{number}", b"{}", 1)
            await catalog.letters.bury([make_letter(f"{name}-{number}"), make_letter(f"both-{number}")])

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def with_catalog(root: Path, work: Callable[[Catalog], Awaitable[Any]]) -> Any:
    """What `work` answers, on a catalogue that is opened for it."""

    async def run() -> Any:
        async with Catalog(root) as catalog:
            return await work(catalog)

    return asyncio.run(run())


def make_letter(
    ident: str = "1-0", error: str = "no JSON", buried_at: int = NOW, data: bytes = b"{}"
) -> DeadLetter:
    return DeadLetter("a3d8f1b2", ident, "chat", data, error, "hash", buried_at)


def deploy(
    root: Path, uid: str = "a3d8f1b2", name: str = "tea", bundle_hash: str = "h1", now_ms: int = NOW
) -> Deployed:
    source = f'{{"hash": "{bundle_hash}"}}'.encode()
    answer = with_catalog(
        root, lambda catalog: catalog.deploy(uid, name, bundle_hash, source, now_ms)
    )
    assert isinstance(answer, Swapped)
    return answer.after


def letters(root: Path) -> list[DeadLetter]:
    """In the order in which they came."""

    async def work(catalog: Catalog) -> list[DeadLetter | None]:
        listed = await catalog.letters.page(["a3d8f1b2"], limit=1000)
        return [await catalog.letters.find("a3d8f1b2", one.id) for one in listed]

    return list(with_catalog(root, work))


def test_an_empty_catalogue_has_nothing(tmp_path: Path) -> None:
    async def work(catalog: Catalog) -> list[Any]:
        found = [
            await catalog.active(),
            await catalog.find("tea"),
            await catalog.source("h1"),
            await catalog.remove("tea"),
        ]
        return [*found, await catalog.letters.page(["a3d8f1b2"], limit=10)]

    assert with_catalog(tmp_path / "new" / "root", work) == [[], None, None, False, []]


def test_a_deployed_bundle_is_found_by_uid_name_and_hash(tmp_path: Path) -> None:
    deployed = deploy(tmp_path)

    found = [
        with_catalog(tmp_path, lambda catalog, key=key: catalog.find(key))
        for key in ("a3d8f1b2", "tea")
    ]
    source = with_catalog(tmp_path, lambda catalog: catalog.source("h1"))

    assert found == [deployed, deployed] == [Deployed("a3d8f1b2", "tea", "h1", 1, NOW)] * 2
    assert source == b'{"hash": "h1"}'


def test_the_same_bundle_again_changes_nothing(tmp_path: Path) -> None:
    first = deploy(tmp_path)

    second = deploy(tmp_path, now_ms=NOW + 1)

    assert second == first


def test_another_bundle_of_the_pipeline_is_its_next_version_and_the_old_one_is_kept(
    tmp_path: Path,
) -> None:
    deploy(tmp_path)

    second = deploy(tmp_path, bundle_hash="h2", name="renamed", now_ms=NOW + 1)
    third = deploy(tmp_path)

    assert second == Deployed("a3d8f1b2", "renamed", "h2", 2, NOW + 1)
    assert third.version == 3
    assert with_catalog(tmp_path, lambda catalog: catalog.source("h2")) == b'{"hash": "h2"}'


@pytest.mark.parametrize(
    ("expected", "active", "holds"),
    [
        (ANYTHING, None, True),
        (ANYTHING, "h1", True),
        (NOTHING, None, True),
        (NOTHING, "h1", False),
        (SOMETHING, None, False),
        (SOMETHING, "h1", True),
        (over("h1"), "h1", True),
        (over("h0", "h1"), "h1", True),
        (over("h2"), "h1", False),
        (over("h1"), None, False),
        (over(""), None, False),
    ],
)
def test_a_change_is_made_over_what_it_is_meant_for_alone(
    tmp_path: Path, expected: Precondition, active: str | None, holds: bool
) -> None:
    before = deploy(tmp_path, bundle_hash=active) if active else None

    async def work(catalog: Catalog) -> Deployed | None:
        with nullcontext() if holds else pytest.raises(NotAsExpected, match="a3d8f1b2"):
            await catalog.deploy("a3d8f1b2", "tea", "new", b"{}", NOW, expected=expected)
        return await catalog.serving("a3d8f1b2")

    serving = with_catalog(tmp_path, work)
    assert (serving.hash == "new") if holds else (serving == before)
    assert with_catalog(tmp_path, lambda catalog: catalog.source("new")) == (
        b"{}" if holds else None
    )


def test_a_pipeline_is_removed_only_where_it_is_what_is_meant(tmp_path: Path) -> None:
    deploy(tmp_path)

    with pytest.raises(NotAsExpected):
        with_catalog(tmp_path, lambda catalog: catalog.remove("a3d8f1b2", over("h2")))

    assert with_catalog(tmp_path, lambda catalog: catalog.remove("a3d8f1b2", over("h1"))) is True
    assert with_catalog(tmp_path, lambda catalog: catalog.remove("a3d8f1b2", over("h1"))) is False


def test_every_version_is_kept_and_numbers_only_grow(tmp_path: Path) -> None:
    made = [deploy(tmp_path, bundle_hash=bundle_hash) for bundle_hash in ("h1", "h2")]
    with_catalog(tmp_path, lambda catalog: catalog.remove("a3d8f1b2"))
    made += [deploy(tmp_path, bundle_hash=bundle_hash) for bundle_hash in ("h2", "h1")]
    deploy(tmp_path, "other")

    versions = with_catalog(tmp_path, lambda catalog: catalog.versions("a3d8f1b2"))

    assert versions == made[::-1]
    assert [(one.version, one.hash) for one in versions] == [
        (4, "h1"),
        (3, "h2"),
        (2, "h2"),
        (1, "h1"),
    ]
    assert with_catalog(tmp_path, lambda catalog: catalog.versions("nobody")) == []


def test_a_file_of_the_first_schema_keeps_its_pipelines_with_the_version_that_is_known(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "system.db", isolation_level=None)) as old:
        for statement in BUNDLES_AND_DEAD_LETTERS:
            old.execute(statement)
        old.execute("INSERT INTO bundles VALUES ('h7', x'7b7d')")
        old.execute("INSERT INTO pipelines VALUES ('a3d8f1b2', 'tea', 'h7', 7, ?)", (NOW,))
        old.execute("PRAGMA user_version = 1")

    next_one = deploy(tmp_path)

    assert next_one.version == 8
    versions = with_catalog(tmp_path, lambda catalog: catalog.versions("a3d8f1b2"))
    assert versions == [next_one, Deployed("a3d8f1b2", "tea", "h7", 7, NOW)]


def test_a_name_that_two_have_finds_neither(tmp_path: Path) -> None:
    for uid in ("a3d8f1b2", "ffffffff"):
        deploy(tmp_path, uid)

    found = [
        with_catalog(tmp_path, lambda catalog, key=key: catalog.find(key))
        for key in ("tea", "ffffffff")
    ]

    assert found[0] is None
    assert found[1].uid == "ffffffff"


def test_a_uid_comes_before_a_name(tmp_path: Path) -> None:
    deploy(tmp_path, "a3d8f1b2", "ffffffff")
    deploy(tmp_path, "ffffffff", "tea")

    assert with_catalog(tmp_path, lambda catalog: catalog.find("ffffffff")).name == "tea"


def test_pipelines_are_listed_by_name(tmp_path: Path) -> None:
    for uid, name in (("2", "b"), ("1", "b"), ("3", "a")):
        deploy(tmp_path, uid, name)

    listed = with_catalog(tmp_path, lambda catalog: catalog.active())

    assert [one.uid for one in listed] == ["3", "1", "2"]


def test_a_removed_pipeline_is_out_of_service_and_its_bundle_stays(tmp_path: Path) -> None:
    deploy(tmp_path)

    removed = [with_catalog(tmp_path, lambda catalog: catalog.remove("a3d8f1b2")) for _ in range(2)]

    assert removed == [True, False]
    assert with_catalog(tmp_path, lambda catalog: catalog.find("tea")) is None
    assert with_catalog(tmp_path, lambda catalog: catalog.source("h1")) is not None


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    name = "'; DROP TABLE pipelines; --\x00\n🫖"

    deploy(tmp_path, name=name)

    assert with_catalog(tmp_path, lambda catalog: catalog.find(name)).name == name


def test_a_dead_letter_is_kept_to_the_byte(tmp_path: Path) -> None:
    everything = make_letter("2-0", data=bytes(range(256)))._replace(
        agent="x\n", producer_id="\x00", hop="many", heard=True
    )

    with_catalog(
        tmp_path, lambda catalog: catalog.letters.bury([everything, make_letter(data=b"")])
    )

    assert letters(tmp_path) == [everything, make_letter(data=b"")]


def test_dead_letters_come_in_the_order_in_which_they_were_buried(tmp_path: Path) -> None:
    buried = [make_letter(f"{12 - number}-0") for number in range(12)]

    with_catalog(tmp_path, lambda catalog: catalog.letters.bury(buried))

    assert letters(tmp_path) == buried


def test_a_dead_letter_twice_is_the_first_one(tmp_path: Path) -> None:
    first = make_letter()
    with_catalog(
        tmp_path, lambda catalog: catalog.letters.bury([first, make_letter(error="again")])
    )

    with_catalog(
        tmp_path,
        lambda catalog: catalog.letters.bury([make_letter(error="and again", buried_at=NOW + 1)]),
    )

    assert letters(tmp_path) == [first]


def test_a_dead_letter_that_another_entry_brings_has_failed_again(tmp_path: Path) -> None:
    first, other = make_letter(error="first")._replace(entry="1-0"), make_letter("2-0")
    again = first._replace(error="again", bundle="newer", buried_at=NOW + 1, entry="9-0")
    with_catalog(tmp_path, lambda catalog: catalog.letters.bury([first, other]))

    for _ in range(2):  # the second as after a crash
        with_catalog(tmp_path, lambda catalog: catalog.letters.bury([again]))

    assert letters(tmp_path) == [again._replace(attempts=2), other]


def test_pages_of_dead_letters_leave_nothing_out_while_letters_come_and_go(tmp_path: Path) -> None:
    async def work(catalog: Catalog) -> list[str]:
        await catalog.letters.bury([make_letter(f"{number}-0") for number in range(6)])
        first = await catalog.letters.page(limit=3)
        await catalog.letters.remove("a3d8f1b2", ["0-0", "2-0", "4-0", "5-0"])
        await catalog.letters.bury([make_letter("7-0"), make_letter("3-0")._replace(entry="8-0")])
        return [
            one.id for one in first + await catalog.letters.page(after=first[-1].place, limit=3)
        ]

    assert with_catalog(tmp_path, work) == ["0-0", "1-0", "2-0", "3-0", "7-0"]


def test_dead_letters_are_removed_by_pipeline_and_id(tmp_path: Path) -> None:
    mine = [make_letter(), make_letter("2-0")]
    with_catalog(
        tmp_path, lambda catalog: catalog.letters.bury([*mine, mine[0]._replace(pipeline="other")])
    )

    removed = with_catalog(
        tmp_path, lambda catalog: catalog.letters.remove("a3d8f1b2", ["1-0", "x", "' OR 1=1 --"])
    )

    assert removed == {"1-0"}
    assert letters(tmp_path) == mine[1:]
    assert with_catalog(tmp_path, lambda catalog: catalog.letters.count()) == {
        "a3d8f1b2": 1,
        "other": 1,
    }
    assert with_catalog(
        tmp_path, lambda catalog: catalog.letters.among("other", ["1-0", "2-0"])
    ) == {"1-0"}


def test_the_dead_letters_of_an_older_file_are_kept_in_their_order(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "system.db")) as older, older:
        for statement in MIGRATIONS[0]:
            older.execute(statement)
        rows = [
            ("a3d8f1b2", ident, "chat", b"\xff", "no JSON", "hash", NOW + at)
            for ident, at in (("2-0", 1), ("1-0", 0))
        ]
        older.executemany("INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        older.execute("PRAGMA user_version = 1")

    assert letters(tmp_path) == [DeadLetter(*row, entry=row[1]) for row in reversed(rows)]


def test_a_dead_letter_belongs_to_its_pipeline(tmp_path: Path) -> None:
    with_catalog(
        tmp_path,
        lambda catalog: catalog.letters.bury(
            [make_letter(), make_letter()._replace(pipeline="other")]
        ),
    )

    assert letters(tmp_path) == [make_letter()]


@pytest.mark.parametrize("data", [None, object()])
def test_dead_letters_are_buried_all_or_none(tmp_path: Path, data: Any) -> None:
    bad = make_letter("2-0")._replace(data=data)

    with pytest.raises(sqlite3.Error):
        with_catalog(tmp_path, lambda catalog: catalog.letters.bury([make_letter(), bad]))

    assert letters(tmp_path) == []


def test_many_at_once_on_one_connection_do_not_disturb_each_other(tmp_path: Path) -> None:
    async def work(catalog: Catalog) -> None:
        burials = [catalog.letters.bury([make_letter(f"{number}-0")]) for number in range(20)]
        deployments = [
            catalog.deploy(str(number), "tea", str(number), b"{}", NOW) for number in range(20)
        ]
        removals = [catalog.remove("nobody") for _ in range(20)]
        await asyncio.gather(*burials, *deployments, *removals)

    with_catalog(tmp_path, work)

    assert len(letters(tmp_path)) == 20
    assert len(with_catalog(tmp_path, lambda catalog: catalog.active())) == 20


@pytest.mark.parametrize("steps", range(8))
def test_a_cancelled_deployment_leaves_no_transaction_open(tmp_path: Path, steps: int) -> None:
    async def work(catalog: Catalog) -> None:
        deploying = asyncio.create_task(catalog.deploy("a3d8f1b2", "tea", "h1", b"{}", NOW))
        for _ in range(steps):
            await asyncio.sleep(0)
        deploying.cancel()
        await asyncio.gather(deploying, return_exceptions=True)
        await catalog.letters.bury([make_letter()])

    with_catalog(tmp_path, work)

    assert letters(tmp_path) == [make_letter()]


def test_processes_may_deploy_and_bury_at_once(tmp_path: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", DEPLOYING_PROGRAM, str(tmp_path), name],
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
        )
        for name in ("a", "b", "c")
    ]

    errors = [program.communicate(timeout=120)[1].decode() for program in programs]

    assert errors == ["", "", ""]
    assert with_catalog(tmp_path, lambda catalog: catalog.find("shared")).version == 60
    assert len(with_catalog(tmp_path, lambda catalog: catalog.active())) == 61
    assert len(letters(tmp_path)) == 80


@pytest.mark.parametrize(
    "content", [b"no database " * 1000, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_refused_and_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "system.db").write_bytes(content)

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(tmp_path, lambda catalog: catalog.active())

    assert (tmp_path / "system.db").read_bytes() == content


def test_a_folder_in_its_place_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "system.db").mkdir()

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(tmp_path, lambda catalog: catalog.active())


def test_a_file_in_the_place_of_its_folder_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("in the way")

    with pytest.raises(StoreBroken, match=r"system\.db"):
        with_catalog(tmp_path / "root", lambda catalog: catalog.active())


def version_of(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return int(version)


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    deploy(tmp_path)
    newer = sqlite3.connect(tmp_path / "system.db")
    newer.execute("PRAGMA user_version = 99")
    newer.close()

    with pytest.raises(StoreBroken, match="newer Memrelay"):
        deploy(tmp_path)

    assert version_of(tmp_path / "system.db") == 99


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = sqlite3.connect(tmp_path / "system.db")
    foreign.execute("CREATE TABLE somebodys(data)")
    foreign.close()
    before = (tmp_path / "system.db").read_bytes()

    with pytest.raises(StoreBroken, match=r"system\.db"):
        deploy(tmp_path)

    assert (tmp_path / "system.db").read_bytes() == before


def test_an_opening_that_is_given_up_leaves_no_thread_behind(tmp_path: Path) -> None:
    async def give_up() -> None:
        opening = asyncio.create_task(Catalog(tmp_path).__aenter__())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])

    before = set(threading.enumerate())
    asyncio.run(give_up())

    wait_for(lambda: set(threading.enumerate()) <= before, "its thread has ended")


def test_a_file_that_is_taken_away_is_told_and_used_again_when_it_is_back(tmp_path: Path) -> None:
    async def about() -> None:
        async with Catalog(tmp_path) as catalog:
            await catalog.deploy("uid", "tea", "hash", b"{}", NOW)
            away = (tmp_path / "system.db").rename(tmp_path / "away")

            with pytest.raises(StoreBusy, match="moved or replaced"):
                await catalog.active()
            with pytest.raises(StoreBusy, match="moved or replaced"):
                await catalog.letters.bury([make_letter("lost")])

            away.rename(tmp_path / "system.db")
            assert [one.uid for one in await catalog.active()] == ["uid"]

    asyncio.run(about())


def test_a_file_that_cannot_be_reached_is_told_and_used_again_when_it_can(tmp_path: Path) -> None:
    root, away = tmp_path / "memory", tmp_path / "away"

    async def about() -> None:
        async with Catalog(root) as catalog:
            await catalog.deploy("uid", "tea", "hash", b"{}", NOW)
            root.rename(away)
            root.write_text("no folder")

            with pytest.raises(StoreBusy, match="cannot be accessed: Not a directory"):
                await catalog.active()

            root.unlink()
            away.rename(root)
            assert [one.uid for one in await catalog.active()] == ["uid"]

    asyncio.run(about())


def test_a_file_that_is_damaged_while_it_is_open_names_the_disk_and_the_backup(
    tmp_path: Path,
) -> None:
    async def about() -> None:
        async with Catalog(tmp_path) as catalog:
            with (tmp_path / "system.db").open("r+b") as file:
                file.write(b"x" * 4096)

            with pytest.raises(
                StoreBroken, match=r"check the disk.*`memrelay restore FOLDER --force`"
            ):
                await catalog.active()

    asyncio.run(about())


def test_a_file_that_was_emptied_is_no_new_one(tmp_path: Path) -> None:
    deploy(tmp_path)
    os.truncate(tmp_path / "system.db", 0)

    with pytest.raises(
        StoreBroken, match=r"system\.db cannot be used: it is empty.*`memrelay restore`"
    ):
        with_catalog(tmp_path, lambda catalog: catalog.active())

    assert (tmp_path / "system.db").stat().st_size == 0


def test_a_file_that_is_emptied_while_it_is_open_is_told_and_not_filled_anew(
    tmp_path: Path,
) -> None:
    async def about() -> None:
        async with Catalog(tmp_path) as catalog:
            await catalog.keys.create("laptop", ["read"], ["*"], None, now_ms=NOW)
            os.truncate(tmp_path / "system.db", 0)

            with pytest.raises(StoreBusy, match="it is empty"):
                await catalog.keys.every()

    asyncio.run(about())


def test_a_new_file_beside_stores_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Store("instances/tea/memories", path_of(tmp_path, "instances/tea/memories")).close()

    for _ in range(2):
        with_catalog(tmp_path, lambda catalog: catalog.active())

    (told,) = [vars(record) for record in caplog.records]
    assert (told["message"], told["stores"]) == ("system_db_recreated", 1)
    assert "memrelay restore" in told["remedy"]


def test_a_new_file_is_whole_at_once_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    with_catalog(tmp_path, lambda catalog: catalog.active())

    assert [path.name for path in tmp_path.iterdir()] == ["system.db"]
    assert version_of(tmp_path / "system.db") == len(MIGRATIONS)
