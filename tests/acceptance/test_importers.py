"""The acceptance statements of importers, for the files of all sources, through a product."""

import json
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from tests.support.bundles import make_bundle
from tests.support.calls import call
from tests.support.chatgpt import branched, chat, long_chat, message, node, write_chats, write_zip
from tests.support.client import Client
from tests.support.foreign import FIXTURES
from tests.support.program import Program

GRAPH = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["tea", "née\nX"]},
    {"type": "entity", "name": "Tea", "entityType": "drink", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Tea", "relationType": "likes"},
]
MANY = 5000
NUMBERS = count(1)


class Case(NamedTuple):
    """A file of a source."""

    source: str
    file: str
    # The number of items, and of those imported.
    read: int
    added: int
    # The texts in the pipeline, None if only the order of the source defines them.
    texts: list[str] | None = None


def fixture(name: str) -> Any:
    return json.loads((FIXTURES / name).read_bytes())


def texts_at(name: str, *keys: str, field: str) -> list[str]:
    """Return a field of the elements of lists of a fixture."""
    found = fixture(name)
    lists = [found] if isinstance(found, list) else [found[key] for key in keys]
    return [one[field] for elements in lists for one in elements if not one.get("deleted_at")]


CHATGPT = ["Where is Oslo?", "In Norway.", "How old is it?", "About 1,000 years."]
AMS = texts_at("redis_ams_search.json", "memories", field="text")
WORKING = texts_at("redis_ams_working.json", "memories", field="text")
CASES = [
    Case("mem0", "mem0.json", 5, 5, texts_at("mem0.json", "results", field="memory")),
    Case("zep", "zep.json", 6, 6, texts_at("zep.json", "messages", field="content")),
    Case("zep", "zep.sql", 6, 6, texts_at("zep.json", "messages", field="content")),
    Case("zep", "zep_messages.csv", 6, 6, texts_at("zep.json", "messages", field="content")),
    Case("letta", "letta.af", 11, 9),
    Case("letta", "letta_old.af", 10, 9),
    Case("letta", "letta_passages.json", 2, 2, texts_at("letta_passages.json", field="text")),
    Case("redis-ams", "redis_ams_search.json", 5, 5, AMS),
    Case(
        "redis-ams",
        "redis_ams_working.json",
        5,
        3,
        [*texts_at("redis_ams_working.json", "messages", field="content"), *WORKING],
    ),
    Case("mcp", "memory.jsonl", 3, 3, ["née\nX", "tea"]),
    Case("chatgpt", "conversations.json", 7, 4, CHATGPT),
    Case("chatgpt", "export.zip", 7, 4, CHATGPT),
]
every_file = pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)


class Bus(NamedTuple):
    """The bus of a running program, for calls."""

    client: Client


bus_of = cache(lambda program: Bus(program.client()))


@pytest.fixture(scope="module")
def up() -> Iterator[Program]:
    with Program() as program:
        shutil.copytree(FIXTURES, program.folder, dirs_exist_ok=True)
        (program.folder / "memory.jsonl").write_text("\n".join(map(json.dumps, GRAPH)))
        write_chats(program.folder / "conversations.json", branched())
        entries = {"conversations.json": orjson.dumps([branched()]), "image.png": b"png"}
        write_zip(program.folder / "export.zip", entries)
        write_chats(program.folder / "many.json", long_chat(1, MANY, "a text"))
        program.up()
        yield program


@pytest.fixture
def uid(up: Program, request: pytest.FixtureRequest) -> str:
    """The uid of an empty pipeline of the test."""
    name = f"p{next(NUMBERS)}"
    (up.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle(name, name=name)))
    assert up.run("deploy", "bundle.json").code == 0
    return name


def run_import(program: Program, uid: str, file: str | Path, *options: str) -> dict[str, Any]:
    """Import a file and return the report, whose counts add up."""
    ended = program.run("import", uid, file, "--json", *options)
    assert ended.code == 0, ended.err
    report: dict[str, Any] = ended.lines[0]
    counted = ("added", "same", "merged", "replaced", "left_out")
    assert report["read"] == sum(report.get(name, 0) for name in counted)
    assert len(report["faults"]) == report["left_out"]
    return report


def pages(program: Program, uid: str, operation: str, **given: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of all pages of a list."""
    cursor = {"limit": 100}
    while True:
        page = call(bus_of(program), uid, operation, given | cursor)
        yield from page["items"]
        if not page.get("next_cursor"):
            return
        cursor = {"limit": 100, "cursor": page["next_cursor"]}


def stored(program: Program, uid: str) -> list[dict[str, Any]]:
    """Return all records, entries, nodes and edges of a pipeline."""
    found = list(pages(program, uid, "records.list"))
    for memory in call(bus_of(program), uid, "memories.list")["items"]:
        found += pages(program, uid, "entries.list", memory_id=memory["id"])
    if any(one["id"] == "mcp" for one in call(bus_of(program), uid, "instances.list")["items"]):
        found += pages(program, uid, "graph.list_nodes", instance="mcp")
        found += pages(program, uid, "graph.list_edges", instance="mcp")
    return found


def texts_of(objects: list[dict[str, Any]]) -> list[str]:
    """Return the texts of records and entries, and the observations of nodes, sorted."""
    texts = []
    for one in objects:
        if "observations" in one:
            texts += one["observations"]
        elif one.get("content") is not None:
            texts.append(one["content"])
    return sorted(texts)


@every_file
def test_01_counts_and_texts_are_those_of_the_file(up: Program, uid: str, case: Case) -> None:
    report = run_import(up, uid, case.file, "--from", case.source)

    assert (report["read"], report["added"]) == (case.read, case.added)
    found = stored(up, uid)
    if case.texts is not None:
        assert texts_of(found) == sorted(case.texts)
    else:
        assert len(found) == case.added


@every_file
def test_02_a_second_import_changes_nothing(up: Program, uid: str, case: Case) -> None:
    run_import(up, uid, case.file, "--from", case.source)
    before = stored(up, uid)

    report = run_import(up, uid, case.file, "--from", "auto")

    assert (report["read"], report["added"], report["same"]) == (case.read, 0, case.added)
    assert stored(up, uid) == before


@every_file
def test_06_a_dry_run_reports_the_counts_and_stores_nothing(
    up: Program, uid: str, case: Case
) -> None:
    planned = run_import(up, uid, case.file, "--from", case.source, "--dry-run")
    assert stored(up, uid) == []

    assert len(planned.pop("samples")) == min(case.added, 10)
    assert planned == run_import(up, uid, case.file, "--from", case.source)
