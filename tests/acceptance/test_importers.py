"""The acceptance statements of importers, for the files of all sources, through a product."""

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

import orjson
import pytest

from tests.mcp.stdio import StdioClient, stdio_client
from tests.support.calls import call
from tests.support.chatgpt import branched, chat, long_chat, message, node, write_chats, write_zip
from tests.support.foreign import FIXTURES
from tests.support.npm import npm_command, npm_environment
from tests.support.program import COMMAND, Program
from tests.support.program_calls import bus_of, deploy
from tests.support.waiting import wait_for

GRAPH: list[dict[str, Any]] = [
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["tea", "née\nX"]},
    {"type": "entity", "name": "Tea", "entityType": "drink", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Tea", "relationType": "likes"},
]
MANY = 5000
GIB = 1 << 30
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
def uid(up: Program) -> str:
    """The uid of an empty pipeline of the test."""
    name = f"p{next(NUMBERS)}"
    deploy(up, name)
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
    """Return all records, entries, entities and relations of a pipeline."""
    found = list(pages(program, uid, "records.list"))
    graph = call(bus_of(program), uid, "knowledge_graph.read")
    return [*found, *graph["entities"], *graph["relations"]]


def texts_of(objects: list[dict[str, Any]]) -> list[str]:
    """Return the texts of records and entries, and the observations of entities, sorted."""
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


@pytest.mark.slow
def test_03_a_killed_importer_is_completed_by_a_second_run(up: Program, uid: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "import", uid, "many.json", "--from", "chatgpt"],
        cwd=up.folder,
        env=up.environment,
    ) as importer:
        wait_for(lambda: is_begun(up, uid), "the import has begun", within_s=60)
        importer.kill()
        importer.wait()

    report = run_import(up, uid, "many.json", "--from", "chatgpt")

    assert (report["read"], report["left_out"]) == (MANY, 0) and report["same"] > 0
    assert_each_turn_is_stored_once(up, uid)


@pytest.mark.slow
def test_03_an_import_is_completed_after_the_worker_was_killed(up: Program, uid: str) -> None:
    with subprocess.Popen(
        [*COMMAND, "import", uid, "many.json", "--from", "chatgpt", "--wait", "5"],
        cwd=up.folder,
        env=up.environment,
        stderr=subprocess.DEVNULL,
    ) as importer:
        wait_for(lambda: is_begun(up, uid), "the import has begun", within_s=60)
        up.end(signal.SIGKILL)
        importer.wait(60)
    bus_of.cache_clear()
    up.up()

    report = run_import(up, uid, "many.json", "--from", "chatgpt")

    assert (report["read"], report["left_out"]) == (MANY, 0)
    assert_each_turn_is_stored_once(up, uid)


def is_begun(program: Program, uid: str) -> bool:
    return bool(call(bus_of(program), uid, "records.list", {"limit": 1})["items"])


def assert_each_turn_is_stored_once(program: Program, uid: str) -> None:
    turns = list(pages(program, uid, "records.list"))
    assert sorted(one["seq"] for one in turns) == list(range(1, MANY + 1))
    assert len({one["content"] for one in turns}) == MANY


def test_05_a_hostile_item_is_left_out_with_its_position(up: Program, uid: str) -> None:
    cycle = chat("c1", [node("a", "b", "b"), node("b", "a", "a")], "a")
    messages = [
        message("m0", "user", "fine"),
        message("m1", "user", "SURROGATE"),
        message("m2", "user", "NaN", create_time="NAN"),
        message("m3", "user", "late", create_time="yesterday"),
        message("m4", "user", "fine too"),
    ]
    names = ["m0", "m1", "m2", "m3", "m4"]
    nodes = [
        node(name, names[at - 1] if at else None, message=messages[at])
        for at, name in enumerate(names)
    ]
    path = write_chats(up.folder / "hostile.json", cycle, chat("c2", nodes, "m4"))
    text = path.read_text().replace("SURROGATE", "\\ud800").replace('"NAN"', "NaN")
    path.write_text(text)

    report = run_import(up, uid, "hostile.json", "--from", "auto")

    assert (report["read"], report["added"], report["left_out"]) == (6, 2, 4)
    reasons = {fault["position"]: fault["reason"] for fault in report["faults"]}
    assert "has a cycle" in reasons["hostile.json[0]"]
    place = "hostile.json[1], message"
    assert "surrogate" in reasons[f"{place} m1"]
    assert "unknown form" in reasons[f"{place} m2"] and "unknown form" in reasons[f"{place} m3"]
    assert texts_of(stored(up, uid)) == ["fine", "fine too"]


def test_05_a_hostile_container_is_refused(up: Program, uid: str) -> None:
    chats = orjson.dumps([branched()])
    for name, content, rule in [
        ("../conversations.json", chats, "has an absolute name or `..`"),
        ("/conversations.json", chats, "has an absolute name or `..`"),
        ("conversations.json", chats[:-1], "is not valid JSON"),
        ("conversations.json", b"[" * 65 + b"]" * 65, "more than 64 deep"),
        ("conversations-1.json", chats + b" x", "is not valid JSON"),
    ]:
        write_zip(up.folder / "hostile.zip", {"conversations.json": chats} | {name: content})

        ended = up.run("import", uid, "hostile.zip", "--from", "chatgpt")

        assert ended.code == 1 and rule in " ".join(ended.err.split()), ended.err
        assert stored(up, uid) == []


def test_05_all_forms_of_dates_are_read(up: Program, uid: str) -> None:
    forms = ["2026-02-01T09:00:00+01:00", "2026-02-01T08:00:00", 1769932800, 1769932800000]
    items = [
        {"id": str(at), "memory": f"Fact {at}", "user_id": "ada", "created_at": form}
        for at, form in enumerate(forms)
    ]
    (up.folder / "dates.json").write_bytes(orjson.dumps(items))

    report = run_import(up, uid, "dates.json", "--from", "mem0")

    assert report["added"] == 4
    assert {one["created_at"] for one in stored(up, uid)} == {"2026-02-01T08:00:00.000Z"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_04_a_zip_of_1_gib_is_imported_within_150_mb(up: Program, uid: str) -> None:
    path, written = up.folder / "large.zip", 0
    with ZipFile(path, "w") as archive, archive.open("conversations.json", "w") as file:
        file.write(b"[")
        for number in count():
            if written >= GIB:
                break
            text = f"word{number} of a long text " * 3000
            chat_bytes = orjson.dumps(long_chat(number, 20, text))
            written += file.write((b"," if number else b"") + chat_bytes)
        file.write(b"]")

    with subprocess.Popen(
        [*COMMAND, "import", uid, path, "--from", "chatgpt", "--wait", "300"],
        cwd=up.folder,
        env=up.environment,
        stdout=subprocess.PIPE,
    ) as importer:
        peak = peak_rss(importer)
        assert importer.stdout is not None
        report = importer.stdout.read().decode()
    path.unlink()

    assert importer.returncode == 0
    assert f"read {number * 20:,}   added {number * 20:,}" in report
    assert peak <= 150 * 1000 * 1000


def peak_rss(process: subprocess.Popen[bytes]) -> int:
    """Return the peak of the resident memory of a process at its end, bytes."""
    status, peak = Path(f"/proc/{process.pid}/status"), 0
    while process.poll() is None:
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        peak = peak if found is None else int(found[1]) * 1024
        time.sleep(0.05)
    return peak


@pytest.mark.slow
def test_08_the_official_server_opens_an_exported_graph(
    up: Program, uid: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    entities = [one for one in GRAPH if one["type"] == "entity"]
    relations = [one for one in GRAPH if one["type"] == "relation"]
    with official_server(first) as server:
        server.call("create_entities", entities=[without_type(one) for one in entities])
        server.call("create_relations", relations=[without_type(one) for one in relations])
        before = server.call("read_graph")["structuredContent"]
    assert len(before["entities"]) == 2

    report = run_import(up, uid, first, "--from", "auto")
    assert up.run("export", uid, "--as", "mcp", "-o", second).code == 0

    assert report["added"] == 3
    with official_server(second) as server:
        assert server.call("read_graph")["structuredContent"] == before


def official_server(path: Path) -> AbstractContextManager[StdioClient]:
    environment = npm_environment() | {"MEMORY_FILE_PATH": str(path)}
    return stdio_client(npm_command("mcp-server-memory"), environment)


def without_type(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "type"}
