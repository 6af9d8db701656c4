"""`memrelay export`: bundles that deploy as the same version."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle
from tests.support.program import Program

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"


@pytest.fixture
def program() -> Iterator[Program]:
    with Program() as program:
        yield program


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_deploy_of_the_output_changes_nothing(program: Program, options: tuple[str, ...]) -> None:
    (deployed,) = program.run("deploy", SAMPLE).lines
    file = program.folder / "exported.json"

    file.write_text(program.run("export", "memory_test", *options).out)
    (again,) = program.run("deploy", file).lines

    assert again == deployed
    assert file.read_text().count("\n") == 1 if options else file.read_text().startswith("{\n  ")


def test_a_pipeline_is_exported_as_asyncapi(program: Program) -> None:
    program.run("deploy", SAMPLE)

    document = orjson.loads(program.run("export", "memory_test", "--asyncapi").out)

    assert document["info"]["title"] == "memory_test"
    assert document["servers"].keys() == {"bus", "web"}
    ended = program.run("export", "memory_test", "--asyncapi", "--records")
    assert (ended.code, "--asyncapi has no records" in ended.err) == (1, True)


def test_an_export_can_go_to_a_file(program: Program) -> None:
    odd = make_bundle("a3d8f1b2", make_agent("plus", "add_1"), name="\u202eodd \x9b ☕") | {
        "more": [1.10, None, "\x7f"]
    }
    (program.folder / "odd.json").write_bytes(orjson.dumps(odd))
    (deployed,) = program.run("deploy", "odd.json").lines

    ended = program.run("export", "a3d8f1b2", "-o", "out.json")

    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert program.run("deploy", "out.json").lines == [deployed]
    assert program.run("export", "a3d8f1b2").out.replace("\n", "").isprintable()


def test_a_bundle_that_would_be_too_large_indented_is_written_on_one_line(program: Program) -> None:
    large = make_bundle("a3d8f1b2") | {"more": [0] * 200_000}
    (program.folder / "large.json").write_bytes(orjson.dumps(large))
    (deployed,) = program.run("deploy", "large.json").lines

    program.run("export", "a3d8f1b2", "--output", "out.json")

    assert program.run("deploy", "out.json").lines == [deployed]


def test_a_file_in_a_missing_folder_is_named(program: Program) -> None:
    program.run("deploy", SAMPLE)

    ended = program.run("export", "memory_test", "--output", "nowhere/out.json")

    assert ended.code == 1
    missing = program.folder.resolve() / "nowhere"
    assert ended.err == f"memrelay: {missing} is not a folder; create it, or use another file\n"


@pytest.mark.parametrize("options", [(), ("--records",)])
def test_a_full_device_is_named(program: Program, options: tuple[str, ...]) -> None:
    program.run("deploy", SAMPLE)

    ended = program.run("export", "memory_test", "-o", "/dev/full", *options)

    assert (ended.code, ended.err) == (
        1,
        "memrelay: /dev/full: No space left on device; make room\n",
    )


def test_an_unknown_pipeline_names_the_next_command(program: Program) -> None:
    ended = program.run("export", "memory_test")

    assert (ended.code, ended.out) == (1, "")
    assert "memrelay deploy FILE" in ended.err
