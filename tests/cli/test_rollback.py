"""`memrelay versions` and `memrelay rollback`, and `memrelay deploy --if-match`."""

from collections.abc import Iterator

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle
from tests.support.program import Completed, Program

UID = "a3d8f1b2"


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


def deploy(program: Program, name: str, *options: str) -> Completed:
    file = program.folder / f"{name}.json"
    file.write_bytes(orjson.dumps(make_bundle(UID, make_agent("plus", "add_1"), name=name)))
    return program.run("deploy", file, *options)


def test_a_rollback_is_a_new_version(program: Program) -> None:
    (old,), (new,) = deploy(program, "old").lines, deploy(program, "new").lines

    (back,) = program.run("rollback", "new").lines
    (forth,) = program.run("rollback", UID, "--to", "2").lines

    assert back == old | {"version": 3} and forth == new | {"version": 4}
    assert [
        (one["version"], one["name"], one["active"]) for one in program.run("versions", UID).lines
    ] == [(4, "new", True), (3, "old", False), (2, "new", False), (1, "old", False)]


def test_a_stale_hash_is_reported_and_changes_nothing(program: Program) -> None:
    (old,), (new,) = deploy(program, "old").lines, deploy(program, "new").lines

    refused = [
        deploy(program, "newest", "--if-match", old["hash"]),
        program.run("rollback", UID, "--if-match", old["hash"]),
    ]

    for ended in refused:
        assert (ended.code, ended.out) == (1, "") and new["hash"] in ended.err
    assert deploy(program, "newest", "--if-match", f'"{new["hash"]}"').lines[0]["version"] == 3


def test_a_removed_pipeline_is_rolled_back_by_its_uid(program: Program) -> None:
    (deployed,) = deploy(program, "old").lines
    program.run("rm", "old")

    assert program.run("rollback", "old").code == 1
    assert program.run("versions", UID).lines[0]["active"] is False
    assert program.run("rollback", UID).lines == [deployed | {"version": 2}]


def test_a_missing_version_names_the_next_command(program: Program) -> None:
    deploy(program, "old")

    for options in ((), ("--to", "7")):
        ended = program.run("rollback", UID, *options)
        assert (ended.code, ended.out) == (1, "") and f"memrelay versions {UID}" in ended.err
    assert program.run("rollback", "nobody").code == 1
