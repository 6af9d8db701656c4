"""The catalog of deployed bundles in system.db, which several processes open at once."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.control.precondition import ANYTHING, NOTHING, SOMETHING, Precondition, over
from memrelay.memory.control.system_file import BUNDLES_AND_DEAD_LETTERS
from memrelay.memory.errors import PreconditionNotMet
from tests.memory.builders import NOW
from tests.memory.control.catalogs import (
    ControlPlane,
    deploy,
    list_dead_letters,
    make_dead_letter,
    with_catalog,
)

CHECKOUT = Path(__file__).resolve().parents[3]

DEPLOYING_PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.memory.control.catalogs import make_dead_letter
from memrelay.memory.control.catalog import Catalog

async def main(place, name):
    for number in range(10):
        async with Catalog(*place) as catalog:
            await catalog.deploy("shared", "tea", f"{name}{number}", b"{}", 1)
            await catalog.deploy(f"{name}{number}", "milk", f"{name}{number}", b"{}", 1)
            dead_letters = [make_dead_letter(f"{x}-{number}") for x in (name, "both")]
            await catalog.dead_letters.add(dead_letters)

asyncio.run(main((Path(sys.argv[1]), sys.argv[2]), sys.argv[3]))
"""


def test_an_empty_catalog_has_nothing(control_plane: ControlPlane) -> None:
    async def work(catalog: Catalog) -> list[Any]:
        found = [
            await catalog.active(),
            await catalog.find("tea"),
            await catalog.source("h1"),
            await catalog.remove("tea"),
        ]
        return [*found, await catalog.dead_letters.page(["a3d8f1b2"], limit=10)]

    new = control_plane._replace(root=control_plane.root / "new" / "root")
    assert with_catalog(new, work) == [[], None, None, False, []]


def test_a_deployed_bundle_is_found_by_uid_name_and_hash(control_plane: ControlPlane) -> None:
    deployed = deploy(control_plane)

    found = [
        with_catalog(control_plane, lambda catalog, key=key: catalog.find(key))
        for key in ("a3d8f1b2", "tea")
    ]
    source = with_catalog(control_plane, lambda catalog: catalog.source("h1"))

    assert found == [deployed, deployed] == [Deployed("a3d8f1b2", "tea", "h1", 1, NOW)] * 2
    assert source == b'{"hash": "h1"}'


def test_deploying_the_same_bundle_again_changes_nothing(control_plane: ControlPlane) -> None:
    first = deploy(control_plane)

    second = deploy(control_plane, now_ms=NOW + 1)

    assert second == first


def test_another_bundle_becomes_the_next_version_and_the_old_one_is_kept(
    control_plane: ControlPlane,
) -> None:
    deploy(control_plane)

    second = deploy(control_plane, bundle_hash="h2", name="renamed", now_ms=NOW + 1)
    third = deploy(control_plane)

    assert second == Deployed("a3d8f1b2", "renamed", "h2", 2, NOW + 1)
    assert third.version == 3
    assert with_catalog(control_plane, lambda catalog: catalog.source("h2")) == b'{"hash": "h2"}'


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
def test_a_deployment_requires_its_precondition(
    control_plane: ControlPlane, expected: Precondition, active: str | None, holds: bool
) -> None:
    before = deploy(control_plane, bundle_hash=active) if active else None

    async def work(catalog: Catalog) -> Deployed | None:
        with nullcontext() if holds else pytest.raises(PreconditionNotMet, match="a3d8f1b2"):
            await catalog.deploy("a3d8f1b2", "tea", "new", b"{}", NOW, expected=expected)
        return await catalog.serving("a3d8f1b2")

    serving = with_catalog(control_plane, work)
    assert (serving.hash == "new") if holds else (serving == before)
    assert with_catalog(control_plane, lambda catalog: catalog.source("new")) == (
        b"{}" if holds else None
    )


def test_a_removal_requires_its_precondition(control_plane: ControlPlane) -> None:
    deploy(control_plane)

    with pytest.raises(PreconditionNotMet):
        with_catalog(control_plane, lambda catalog: catalog.remove("a3d8f1b2", over("h2")))

    assert (
        with_catalog(control_plane, lambda catalog: catalog.remove("a3d8f1b2", over("h1"))) is True
    )
    assert (
        with_catalog(control_plane, lambda catalog: catalog.remove("a3d8f1b2", over("h1"))) is False
    )


def test_every_version_is_kept_and_numbers_only_grow(control_plane: ControlPlane) -> None:
    made = [deploy(control_plane, bundle_hash=bundle_hash) for bundle_hash in ("h1", "h2")]
    with_catalog(control_plane, lambda catalog: catalog.remove("a3d8f1b2"))
    made += [deploy(control_plane, bundle_hash=bundle_hash) for bundle_hash in ("h2", "h1")]
    deploy(control_plane, "other")

    versions = with_catalog(control_plane, lambda catalog: catalog.versions("a3d8f1b2"))

    assert versions == made[::-1]
    assert [(one.version, one.hash) for one in versions] == [
        (4, "h1"),
        (3, "h2"),
        (2, "h2"),
        (1, "h1"),
    ]
    assert with_catalog(control_plane, lambda catalog: catalog.versions("nobody")) == []


def test_a_file_of_the_first_schema_keeps_its_pipelines_and_versions(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "system.db", isolation_level=None)) as old:
        for statement in BUNDLES_AND_DEAD_LETTERS:
            old.execute(statement)
        old.execute("INSERT INTO bundles VALUES ('h7', x'7b7d')")
        old.execute("INSERT INTO pipelines VALUES ('a3d8f1b2', 'tea', 'h7', 7, ?)", (NOW,))
        old.execute("PRAGMA user_version = 1")

    next_one = deploy(ControlPlane(tmp_path))

    assert next_one.version == 8
    versions = with_catalog(ControlPlane(tmp_path), lambda catalog: catalog.versions("a3d8f1b2"))
    assert versions == [next_one, Deployed("a3d8f1b2", "tea", "h7", 7, NOW)]


def test_an_ambiguous_name_finds_no_pipeline(control_plane: ControlPlane) -> None:
    for uid in ("a3d8f1b2", "ffffffff"):
        deploy(control_plane, uid)

    found = [
        with_catalog(control_plane, lambda catalog, key=key: catalog.find(key))
        for key in ("tea", "ffffffff")
    ]

    assert found[0] is None
    assert found[1].uid == "ffffffff"


def test_a_uid_takes_precedence_over_a_name(control_plane: ControlPlane) -> None:
    deploy(control_plane, "a3d8f1b2", "ffffffff")
    deploy(control_plane, "ffffffff", "tea")

    assert with_catalog(control_plane, lambda catalog: catalog.find("ffffffff")).name == "tea"


def test_pipelines_are_listed_by_name(control_plane: ControlPlane) -> None:
    for uid, name in (("2", "b"), ("1", "b"), ("3", "a")):
        deploy(control_plane, uid, name)

    listed = with_catalog(control_plane, lambda catalog: catalog.active())

    assert [one.uid for one in listed] == ["3", "1", "2"]


def test_a_removed_pipeline_is_inactive_and_its_bundle_is_kept(control_plane: ControlPlane) -> None:
    deploy(control_plane)

    removed = [
        with_catalog(control_plane, lambda catalog: catalog.remove("a3d8f1b2")) for _ in range(2)
    ]

    assert removed == [True, False]
    assert with_catalog(control_plane, lambda catalog: catalog.find("tea")) is None
    assert with_catalog(control_plane, lambda catalog: catalog.source("h1")) is not None


def test_a_hostile_name_is_stored_as_text(control_plane: ControlPlane) -> None:
    name = "'; DROP TABLE pipelines; --\x00\n🫖"

    deploy(control_plane, name=name)

    (found,) = with_catalog(control_plane, lambda catalog: catalog.active())
    # PostgreSQL has no NUL character in a text.
    assert found.name == (name.replace("\0", "␀") if control_plane.url else name)


def test_concurrent_calls_on_one_connection_do_not_interfere(control_plane: ControlPlane) -> None:
    async def work(catalog: Catalog) -> None:
        burials = [
            catalog.dead_letters.add([make_dead_letter(f"{number}-0")]) for number in range(20)
        ]
        deployments = [
            catalog.deploy(str(number), "tea", str(number), b"{}", NOW) for number in range(20)
        ]
        removals = [catalog.remove("nobody") for _ in range(20)]
        await asyncio.gather(*burials, *deployments, *removals)

    with_catalog(control_plane, work)

    assert len(list_dead_letters(control_plane)) == 20
    assert len(with_catalog(control_plane, lambda catalog: catalog.active())) == 20


@pytest.mark.parametrize("steps", range(8))
def test_a_cancelled_deployment_leaves_no_transaction_open(
    control_plane: ControlPlane, steps: int
) -> None:
    async def work(catalog: Catalog) -> None:
        deploying = asyncio.create_task(catalog.deploy("a3d8f1b2", "tea", "h1", b"{}", NOW))
        for _ in range(steps):
            await asyncio.sleep(0)
        deploying.cancel()
        await asyncio.gather(deploying, return_exceptions=True)
        await catalog.dead_letters.add([make_dead_letter()])

    with_catalog(control_plane, work)

    assert list_dead_letters(control_plane) == [make_dead_letter()]


def test_several_processes_can_deploy_and_add_dead_letters_at_once(
    control_plane: ControlPlane,
) -> None:
    programs = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                DEPLOYING_PROGRAM,
                str(control_plane.root),
                control_plane.url,
                name,
            ],
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
        )
        for name in ("a", "b", "c")
    ]

    errors = [program.communicate(timeout=120)[1].decode() for program in programs]

    assert errors == ["", "", ""]
    assert with_catalog(control_plane, lambda catalog: catalog.find("shared")).version == 30
    assert len(with_catalog(control_plane, lambda catalog: catalog.active())) == 31
    assert len(list_dead_letters(control_plane)) == 40
