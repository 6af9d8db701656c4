"""`memrelay import --from`: memories of other systems, through a running product."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Program
from tests.support.program_calls import deploy, one

CASES = Path(__file__).parents[1] / "memory" / "transfer" / "importers" / "cases"

MEM0 = [
    {
        "id": "8a1c",
        "memory": "Ada likes tea",
        "hash": "h1",
        "metadata": {"topic": "drinks"},
        "created_at": "2024-05-01T10:00:00-07:00",
        "updated_at": None,
        "user_id": "ada",
        "run_id": "run-1",
    },
    {"id": "8a1d", "memory": "Ben owns a boat", "user_id": "ben", "created_at": "2025-01-01"},
    {"id": "8a1e", "memory": "The build takes 4 minutes", "agent_id": "ci"},
    {"id": "8a1f", "memory": " ", "user_id": "ada"},
    {"id": "8a20", "memory": "late", "user_id": "ada", "created_at": "yesterday"},
    {"id": "8a21", "memory": "\ud800", "user_id": "ada"},
    {"id": "8a22", "memory": "nan", "user_id": "ada", "metadata": {"x": float("nan")}},
    {"id": "8a1d", "memory": "Ben owns a boat", "user_id": "ben", "created_at": "2025-01-01"},
]
GRAPH = [
    {
        "type": "entity",
        "name": "Ada",
        "entityType": "person",
        "observations": ["likes tea", "a\nb"],
    },
    {"type": "entity", "name": "Tea", "entityType": "drink", "observations": []},
    {"type": "relation", "from": "Ada", "to": "Tea", "relationType": "likes"},
    {"type": "relation", "from": "Ada", "to": "Rome", "relationType": "visits"},
    {"type": "thing"},
]


@pytest.fixture(scope="module")
def up() -> Iterator[Program]:
    with Program() as program:
        program.up()
        yield program
        assert program.end() == 0


def write(program: Program, name: str, items: list[Any], *, lines: bool = False) -> None:
    text = "\n".join(map(json.dumps, items)) if lines else json.dumps({"results": items})
    (program.folder / name).write_text(text)


def run_import(program: Program, uid: str, file: str, *options: str) -> dict[str, Any]:
    ended = program.run("import", uid, file, "--json", *options)
    assert ended.code == 0, ended.err
    return ended.lines[0]


def counts(report: dict[str, Any]) -> dict[str, int]:
    return {name: report[name] for name in ("read", "added", "same", "left_out")}


def entries(program: Program, uid: str) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of each named memory, by its name."""
    return {
        memory["name"]: one(program, uid, "entries.list", memory_id=memory["id"])["items"]
        for memory in one(program, uid, "memories.list")["items"]
    }


def test_mem0_memories_become_entries_with_their_times_owners_and_data(up: Program) -> None:
    deploy(up, "mem1")
    write(up, "mem0.json", MEM0)

    report = run_import(up, "mem1", "mem0.json", "--from", "mem0")

    assert counts(report) == {"read": 8, "added": 3, "same": 1, "left_out": 4}
    assert report["faults"][0]["reason"] == "the text is empty"
    assert [fault["position"] for fault in report["faults"]] == [
        f"results[{at}]" for at in (3, 4, 5, 6)
    ]
    found = entries(up, "mem1")
    assert {name: [one["content"] for one in items] for name, items in found.items()} == {
        "mem0/ada": ["Ada likes tea"],
        "mem0/ben": ["Ben owns a boat"],
        "mem0/ci": ["The build takes 4 minutes"],
    }
    ada = found["mem0/ada"][0]
    assert ada["created_at"] == "2024-05-01T17:00:00.000Z"
    assert ada["metadata"]["topic"] == "drinks" and ada["metadata"]["mem0"]["hash"] == "h1"


def test_a_repeated_import_changes_nothing(up: Program) -> None:
    deploy(up, "mem2")
    write(up, "mem0.json", MEM0)
    run_import(up, "mem2", "mem0.json", "--from", "mem0")
    before = entries(up, "mem2")

    report = run_import(up, "mem2", "mem0.json", "--from", "auto")

    assert counts(report) == {"read": 8, "added": 0, "same": 4, "left_out": 4}
    assert entries(up, "mem2") == before


def test_a_dry_run_reports_the_counts_and_stores_nothing(up: Program) -> None:
    deploy(up, "mem3")
    write(up, "mem0.json", MEM0)

    planned = run_import(up, "mem3", "mem0.json", "--from", "mem0", "--dry-run")
    assert one(up, "mem3", "memories.list")["items"] == []
    done = run_import(up, "mem3", "mem0.json", "--from", "mem0")

    assert planned.pop("samples") == [
        "mem0/ada: Ada likes tea",
        "mem0/ben: Ben owns a boat",
        "mem0/ci: The build takes 4 minutes",
    ]
    assert planned == done


def test_a_record_that_changed_in_the_pipeline_is_left_out(up: Program) -> None:
    deploy(up, "mem4")
    write(up, "mem0.json", MEM0)
    run_import(up, "mem4", "mem0.json", "--from", "mem0")
    found = entries(up, "mem4")
    one(up, "mem4", "entries.update", id=found["mem0/ada"][0]["id"], content="Ada likes coffee")
    one(up, "mem4", "entries.delete", id=found["mem0/ben"][0]["id"])

    report = run_import(up, "mem4", "mem0.json", "--from", "mem0")

    assert counts(report) == {"read": 8, "added": 0, "same": 2, "left_out": 6}
    reasons = {fault["position"]: fault["reason"] for fault in report["faults"]}
    assert "different data" in reasons["results[0]"] and "deleted" in reasons["results[1]"]
    assert entries(up, "mem4")["mem0/ada"][0]["content"] == "Ada likes coffee"
    planned = run_import(up, "mem4", "mem0.json", "--from", "mem0", "--replace", "--dry-run")
    replaced = run_import(up, "mem4", "mem0.json", "--from", "mem0", "--replace")
    assert replaced["replaced"] == 2
    del planned["samples"]
    assert planned == replaced
    assert entries(up, "mem4") | {} == found


def test_entities_and_relations_become_nodes_and_edges(up: Program) -> None:
    deploy(up, "graph1")
    write(up, "memory.jsonl", GRAPH, lines=True)

    first = run_import(up, "graph1", "memory.jsonl", "--from", "auto")
    second = run_import(up, "graph1", "memory.jsonl", "--from", "mcp")

    assert counts(first) == {"read": 5, "added": 4, "same": 0, "left_out": 1}
    assert counts(second) == {"read": 5, "added": 0, "same": 4, "left_out": 1}
    nodes = one(up, "graph1", "graph.list_nodes", instance="mcp")["items"]
    assert [(node["id"], node["kind"]) for node in nodes] == [("Ada", "person"), ("Tea", "drink")]
    edges = one(up, "graph1", "graph.list_edges", instance="mcp")["items"]
    assert [(edge["from_node_id"], edge["kind"], edge["to_node_id"]) for edge in edges] == [
        ("Ada", "likes", "Tea"),
        ("Ada", "visits", "Rome"),
    ]


def test_observations_become_facts(up: Program) -> None:
    deploy(up, "graph2")
    write(up, "memory.jsonl", GRAPH, lines=True)

    report = run_import(up, "graph2", "memory.jsonl", "--from", "mcp", "--as", "facts")

    assert counts(report) == {"read": 6, "added": 2, "same": 0, "left_out": 4}
    texts = [entry["content"] for entry in entries(up, "graph2")["mcp"]]
    assert texts == ["Ada: likes tea", "Ada: a\nb"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("[1", ["--from", "mem0"], "not valid JSON"),
        ("no", ["--from", "mem0"], "is not JSON"),
        ("[]", ["--from", "auto"], "name one with --from"),
        ("[]", ["--from", "mem"], "unknown source 'mem'"),
        ("[]", ["--dry-run"], "--dry-run requires --from"),
        ("[]", ["--from", "mem0", "--as", "texts"], "use one of facts, records, turns"),
        ("[]", ["--from", "mem0", "--since", "soon"], "has an unknown form"),
        ("[]", ["--from", "mem0", "--dedupe", "--dry-run"], "leave out one of them"),
        ("[]", ["--from", "mem0", "--all-branches"], "--all-branches is for chatgpt"),
    ],
)
def test_a_refused_file_or_option_is_named(
    up: Program, text: str, options: list[str], message: str
) -> None:
    deploy(up, "bad1")
    (up.folder / "bad.json").write_text(text)

    ended = up.run("import", "bad1", "bad.json", *options)

    assert ended.code == 1 and message in ended.err, ended.err


def test_the_options_select_owner_time_and_kind(up: Program) -> None:
    deploy(up, "mem5")
    write(up, "mem0.json", MEM0)

    report = run_import(
        up,
        "mem5",
        "mem0.json",
        "--from",
        "mem0",
        "--since",
        "2025-01-01",
        "--owner",
        "eve",
        "--as",
        "records",
    )

    assert counts(report) == {"read": 8, "added": 1, "same": 1, "left_out": 6}
    (record,) = one(up, "mem5", "records.list", kind="fact")["items"]
    assert (record["content"], record["owner"]) == ("Ben owns a boat", "eve")
    assert record["data"]["memory"] == "mem0/ben"


def test_similar_facts_are_merged_once(up: Program) -> None:
    deploy(up, "mem6")
    items = [
        {"id": str(at), "memory": text, "user_id": "ada"}
        for at, text in enumerate(
            [
                "Customer prefers email contact",
                "The customer prefers contact by email",
                "customer prefers email contact.",
                "The customer prefers email contact",
            ]
        )
    ]
    write(up, "similar.json", items)

    first = run_import(up, "mem6", "similar.json", "--from", "mem0", "--dedupe")
    before = entries(up, "mem6")
    second = run_import(up, "mem6", "similar.json", "--from", "mem0", "--dedupe")

    assert (first["added"], first["merged"], first["same"]) == (1, 2, 1)
    assert second["added"] == 0 and second["read"] == second["merged"] + second["same"]
    assert entries(up, "mem6") == before and len(before["mem0/ada"]) == 1


def test_an_export_for_mem0_is_imported_again_with_the_same_texts(up: Program) -> None:
    deploy(up, "mem7")
    deploy(up, "mem8")
    write(up, "mem0.json", MEM0)
    run_import(up, "mem7", "mem0.json", "--from", "mem0")
    memory = one(up, "mem7", "memories.create", name="notes")["id"]
    one(up, "mem7", "entries.create", memory_id=memory, content="The sky is blue")

    ended = up.run("export", "mem7", "--as", "mem0", "-o", "again.json")
    report = run_import(up, "mem8", "again.json", "--from", "auto")

    assert ended.out.endswith("4 facts\n"), ended.out + ended.err
    assert counts(report) == {"read": 4, "added": 4, "same": 0, "left_out": 0}
    found, again = entries(up, "mem7"), entries(up, "mem8")
    texts = {name: [entry["content"] for entry in items] for name, items in found.items()}
    texts["mem0/notes"] = texts.pop("notes")
    assert {name: [entry["content"] for entry in items] for name, items in again.items()} == texts
    assert again["mem0/ada"][0]["id"].split("_")[2] == found["mem0/ada"][0]["id"].split("_")[2]
    assert again["mem0/ada"][0]["metadata"] == found["mem0/ada"][0]["metadata"]


def test_an_exported_graph_has_the_lines_of_the_imported_one(up: Program) -> None:
    deploy(up, "graph3")
    write(up, "memory.jsonl", GRAPH[:4], lines=True)
    run_import(up, "graph3", "memory.jsonl", "--from", "mcp")

    to_stdout = up.run("export", "graph3", "--as", "mcp")
    to_file = up.run("export", "graph3", "--as", "mcp", "-o", "again.jsonl")

    assert to_file.out == "again.jsonl: 4 lines\n"
    text = (up.folder / "again.jsonl").read_text()
    assert [json.loads(line) for line in text.split("\n")] == GRAPH[:4]
    assert to_stdout.out == text
    assert counts(run_import(up, "graph3", "again.jsonl", "--from", "mcp"))["same"] == 4


def test_an_unknown_format_of_an_export_is_named(up: Program) -> None:
    deploy(up, "bad1")

    ended = up.run("export", "bad1", "--as", "zep")

    assert ended.code == 1 and "use mcp or mem0" in ended.err


def test_an_import_of_nothing_ends_with_1(up: Program) -> None:
    deploy(up, "none1")
    write(up, "empty.json", [{"id": "1", "memory": " ", "user_id": "ada"}])

    ended = up.run("import", "none1", "empty.json", "--from", "auto")

    assert ended.code == 1 and "nothing was imported" in ended.err
    assert ended.out.startswith("read 1   added 0   same 0   left out 1\n")
    assert "results[0]: the text is empty" in ended.out


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("mcp_memory/truncated_tail.jsonl", (4, 3, 1)),
        ("mcp_memory/odd_names.jsonl", (11, 11, 0)),
        ("mcp_memory/powershell_utf16.jsonl", (3, 3, 0)),
        ("mem0/odd_scopes.json", (6, 6, 0)),
        ("mem0/platform_page1.json", (2, 2, 0)),
        ("claude/conversations.json", (6, 2, 4)),
        ("chatgpt/conversations.json", (14, 7, 7)),
        ("mixed_language.jsonl", (12, 12, 0)),
    ],
)
def test_files_from_the_field_are_imported(
    up: Program, file: str, expected: tuple[int, int, int]
) -> None:
    uid = "f" + file.replace("/", "").replace(".", "").replace("_", "")[:20].lower()
    deploy(up, uid)

    ended = up.run("import", uid, CASES / file, "--from", "auto", "--json")

    assert ended.code == 0, ended.err
    report = ended.lines[0]
    assert (report["read"], report["added"], report["left_out"]) == expected
    if "page1" in file:
        assert "2 of 250 items" in report["notes"][0]


def test_names_that_differ_in_case_or_spaces_stay_apart(up: Program) -> None:
    deploy(up, "names1")
    run_import(up, "names1", str(CASES / "mcp_memory" / "odd_names.jsonl"), "--from", "mcp")

    nodes = one(up, "names1", "graph.list_nodes", instance="mcp")["items"]

    assert {"Ada", "ada", "Ada "} <= {node["id"] for node in nodes}


def test_a_second_import_of_a_vault_changes_its_notes(up: Program) -> None:
    deploy(up, "vault1")
    vault = up.folder / "vault"
    vault.mkdir()
    for name in ("a", "b", "c", "d"):
        (vault / f"{name}.md").write_text(f"first {name}")
    first = run_import(up, "vault1", "vault", "--from", "auto")
    records = {
        record["key"]: record
        for record in one(up, "vault1", "records.list", kind="note", limit=10)["items"]
    }
    edited = records["markdown/vault/b.md"]
    one(up, "vault1", "records.update", guid=edited["guid"], content="edited here")
    (vault / "a.md").write_text("second a")
    (vault / "b.md").write_text("second b")
    (vault / "d.md").unlink()

    planned = run_import(up, "vault1", "vault", "--from", "auto", "--dry-run")
    second = run_import(up, "vault1", "vault", "--from", "auto")

    assert first["added"] == 4
    assert (second["replaced"], second["same"], second["left_out"]) == (1, 1, 1)
    assert second["faults"][0]["position"] == "b.md"
    assert second["vanished"] == ["markdown/vault/d.md"]
    assert planned | {"samples": 0} == second | {"samples": 0}
    found = one(up, "vault1", "records.list", kind="note", limit=10)["items"]
    assert {record["key"][-4:]: record["content"] for record in found} == {
        "a.md": "second a",
        "b.md": "edited here",
        "c.md": "first c",
        "d.md": "first d",
    }
    third = up.run("import", "vault1", "vault", "--from", "auto")
    assert "kept in the pipeline:\n  markdown/vault/d.md\n" in third.out
    assert counts(run_import(up, "vault1", "vault", "--from", "auto"))["same"] == 2


def test_a_table_without_a_known_column_ends_with_2(up: Program) -> None:
    deploy(up, "table1")
    (up.folder / "t.csv").write_text("who,what\nada,likes tea\n")

    refused = up.run("import", "table1", "t.csv", "--from", "auto")
    report = run_import(up, "table1", "t.csv", "--from", "csv", "--content", "what")

    assert refused.code == 2 and "--content: who, what" in refused.err
    assert counts(report) == {"read": 1, "added": 1, "same": 0, "left_out": 0}
    (record,) = one(up, "table1", "records.list", kind="note")["items"]
    assert record["content"] == "likes tea" and record["data"] == {"who": "ada"}


def test_an_import_and_a_record_that_wait_for_review_are_reported(up: Program) -> None:
    deploy(up, "held1")
    one(up, "held1", "policies.set", policy={"name": "all", "match": {}, "action": "review"})
    write(up, "mem0.json", MEM0[:2])

    created = up.run("records", "create", "held1", "tea")
    imported = up.run("import", "held1", "mem0.json", "--from", "mem0", "--json")

    assert (created.code, created.lines[0]["review"]) == (0, "pending")
    assert counts(imported.lines[0]) == {"read": 2, "added": 0, "same": 0, "left_out": 2}
    assert "holds the write for review" in imported.lines[0]["faults"][0]["reason"]
    assert entries(up, "held1") == {}
    listed = up.run("reviews", "list", "held1").lines[0]["items"]
    decided = up.run("reviews", "approve", "held1", "--policy", "all").lines[0]["items"]
    assert [item["status"] for item in decided] == ["approved"] * len(listed) == ["approved"] * 3
    found = entries(up, "held1")
    assert found["mem0/ada"][0]["content"] == "Ada likes tea"
