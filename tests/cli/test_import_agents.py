"""`memrelay import --from zep|letta|redis-ams`: the files of these systems, through a product."""

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.memory.models.named_memories.memories import KIND as ENTRY_KIND
from tests.support.agent_memory_server import AgentMemoryServer
from tests.support.foreign import FIXTURES
from tests.support.program import Program
from tests.support.program_calls import deploy, one

WORKING = json.loads((FIXTURES / "redis_ams_working.json").read_bytes())


@pytest.fixture(scope="module")
def up() -> Iterator[Program]:
    with Program() as program:
        shutil.copytree(FIXTURES, program.folder, dirs_exist_ok=True)
        program.up()
        yield program
        assert program.end() == 0


def run_import(program: Program, uid: str, *given: str) -> dict[str, Any]:
    ended = program.run("import", uid, *given, "--json")
    assert ended.code == 0, ended.err
    report: dict[str, Any] = ended.lines[0]
    assert report["read"] == report["added"] + report["same"] + report["left_out"]
    return report


def counts(report: dict[str, Any]) -> tuple[int, int, int, int]:
    return report["read"], report["added"], report["same"], report["left_out"]


def records(program: Program, uid: str) -> list[dict[str, Any]]:
    """Return the records outside of named memories, by their position in threads."""
    listed = one(program, uid, "records.list", limit=100)["items"]
    found = [record for record in listed if record["kind"] != ENTRY_KIND]
    return sorted(found, key=lambda record: (record["thread"] or "", record["seq"] or 0))


def entries(program: Program, uid: str) -> dict[str, set[str]]:
    return {
        memory["name"]: {
            entry["content"]
            for entry in one(program, uid, "entries.list", memory_id=memory["id"])["items"]
        }
        for memory in one(program, uid, "memories.list")["items"]
    }


def test_the_messages_of_zep_become_turns_and_deleted_ones_deleted_records(up: Program) -> None:
    deploy(up, "zep1")

    report = run_import(up, "zep1", "zep.sql", "--from", "auto")

    assert counts(report) == (6, 6, 0, 0)
    found = records(up, "zep1")
    assert [(one["thread"], one["seq"], one["owner"], one["source"]) for one in found] == [
        ("s1", 1, "lin", "Lin"),
        ("s1", 2, "lin", "bot"),
        ("s1", 3, "lin", "Lin"),
        ("s2", 5, "mo", "Mo"),
        ("s3", 6, None, "import"),
    ]
    assert found[1]["content"] == "Hello Lin;\nhow can I help?\n); -- not the end"
    assert found[0]["created_at"] == "2026-05-04T10:00:01.250Z"
    deleted = one(up, "zep1", "records.list", deleted=True)["items"]
    assert [record["guid"] in {one["guid"] for one in found} for record in deleted] == [False]
    again = [
        run_import(up, "zep1", name, "--from", "zep")
        for name in ("zep.sql", "zep_columns.sql", "zep_messages.csv", "zep.json")
    ]
    assert [counts(one) for one in again] == [(6, 0, 6, 0)] * 4
    assert records(up, "zep1") == found


def test_an_agent_of_letta_becomes_blocks_and_turns(up: Program) -> None:
    deploy(up, "letta1")

    report = run_import(up, "letta1", "letta.af", "--from", "letta")

    assert counts(report) == (11, 9, 0, 2)
    assert any("at most 50 messages" in note for note in report["notes"])
    found = records(up, "letta1")
    blocks = {one["key"]: one for one in found if one["kind"] == "block"}
    assert blocks["human"]["content"] == "The name of the user is Grace."
    assert blocks["human"]["in_context"] and blocks["persona"]["in_context"]
    turns = [one for one in found if one["thread"] == "support"]
    assert [one["content"] for one in turns][-2:] == ["Danke schön 📦", "You are welcome."]
    assert counts(run_import(up, "letta1", "letta.af", "--from", "auto")) == (11, 0, 9, 2)
    assert counts(run_import(up, "letta1", "letta_old.af", "--from", "auto")) == (10, 9, 0, 1)
    assert counts(run_import(up, "letta1", "letta_passages.json", "--from", "auto")) == (2, 2, 0, 0)
    assert entries(up, "letta1") == {
        "letta/letta_passages": {"Grace lives in Zürich.", "Parcels leave at noon."}
    }


def test_memories_of_redis_agent_memory_server_become_entries_and_turns(up: Program) -> None:
    deploy(up, "ams1")

    assert counts(run_import(up, "ams1", "redis_ams_search.json", "--from", "auto")) == (5, 5, 0, 0)
    assert counts(run_import(up, "ams1", "redis_ams_working.json", "--from", "auto")) == (
        5,
        3,
        0,
        2,
    )

    assert entries(up, "ams1") == {
        "redis-ams/ada": {
            "Ada prefers metric units.",
            "Ada visited Kyōto in spring 🌸.",
            "Ada is allergic to peanuts.",
            "Ada travels by train.",
        },
        "redis-ams/docs": {"The API allows 100 requests per minute."},
    }
    assert [(one["thread"], one["source"], one["content"]) for one in records(up, "ams1")] == [
        ("trip-1", "import", "Which train goes to Kyōto?"),
        ("trip-2", "user", "Which train?"),
        ("trip-2", "assistant", "The Nozomi."),
    ]
    again = run_import(up, "ams1", "redis_ams_search.json", "--from", "redis-ams")
    assert counts(again) == (5, 0, 5, 0)


def test_a_server_is_read_over_its_api(up: Program) -> None:
    deploy(up, "ams2")
    memories = [
        {"id": str(number), "text": f"Memory {number}.", "memory_type": "semantic"}
        for number in range(120)
    ]
    with AgentMemoryServer(memories, {"trip-2": WORKING}) as server:
        options = ("--from", "redis-ams", "--url", server.url)
        planned = run_import(up, "ams2", *options, "--dry-run")
        first = run_import(up, "ams2", *options)
        again = run_import(up, "ams2", *options)

    assert counts(planned) == counts(first) == (125, 123, 0, 2)
    assert counts(again) == (125, 0, 123, 2)
    found = one(up, "ams2", "records.list", limit=200)["items"]
    texts = {str(memory["text"]) for memory in memories}
    assert texts < {record["content"] for record in found} and len(found) == 123


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (("zep.sql", "--from", "redis-ams", "--url", "http://localhost:1"), "name the file"),
        (("--from", "zep"), "name the file to import"),
        (("--from", "zep", "--url", "http://localhost:1"), "--url is for redis-ams"),
        (("--url", "http://localhost:1"), "--url requires --from"),
        (("--from", "auto", "--url", "http://localhost:1"), "auto needs a file"),
        (("--from", "redis-ams", "--url", "nowhere"), "is not the address of a server"),
        (("--from", "redis-ams", "--url", "http://10.255.255.1"), "outgoing.private"),
        (("--from", "redis-ams", "--url", "http://127.0.0.1:1"), "cannot be reached"),
    ],
)
def test_wrong_addresses_are_refused(up: Program, given: tuple[str, ...], rule: str) -> None:
    deploy(up, "ams3")

    ended = up.run("import", "ams3", *given)

    assert ended.code == 1
    assert rule in " ".join(ended.err.split())


def test_an_import_is_undone_with_the_label_that_it_prints(up: Program) -> None:
    deploy(up, "undone")
    one(up, "undone", "records.create", content="own")
    ended = up.run("import", "undone", "zep.sql", "--from", "auto")
    label = ended.err.rpartition("--import ")[2].strip()
    imported = [record["guid"] for record in records(up, "undone") if record["content"] != "own"]
    one(up, "undone", "records.update", guid=imported[0], content="edited")
    given = ("undo", "undone", "--import", label)

    trial = up.run(*given, "--dry-run").out
    first = up.run(*given, "--json").lines[0]
    again = up.run(*given).out

    assert "would delete 4 new records" in trial and imported[0] in trial
    assert (first["deleted"], first["restored"]) == (4, 0)
    assert [record["content"] for record in records(up, "undone")] == ["own", "edited"]
    assert again.startswith("deleted 0 new records, and brought back 0 records\n")
    assert up.run("undo", "undone").code == 1

    up.run("undo", "undone", "--undo", first["label"])
    assert len(records(up, "undone")) == 6
