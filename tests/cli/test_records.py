"""`memrelay records ...` and the other commands that are generated from operations."""

import pytest

from memrelay.cli.operation_command import OPTIONAL_ARGUMENTS
from memrelay.memory.operations import all_operations, input_schema, positional_fields
from tests.cli.serving import uid_of
from tests.support.program import Completed, Program


def records(program: Program, verb: str, *words: str) -> Completed:
    return program.run("records", verb, "memory_test", *words)


def test_a_record_is_created_changed_deleted_and_restored_by_command(program: Program) -> None:
    (made,) = records(
        program, "create", "tea with milk", "--tags", "a", "--tags", "b", "--kind", "fact"
    ).lines
    (changed,) = records(
        program, "update", made["guid"], "--content", "coffee", "--if-version", made["version"]
    ).lines
    (grown,) = records(program, "append", "black", "--guid", made["guid"]).lines
    (shown,) = records(program, "get", made["guid"]).lines
    (listed,) = records(program, "list", "--tags", "a", "--limit", "1").lines
    (found,) = records(program, "search", "coffee").lines
    records(program, "delete", made["guid"], "--reason", "mistaken")
    (deleted,) = records(program, "list", "--deleted").lines
    (back,) = records(program, "restore", made["guid"], "--number", "2", "--reason", "undo").lines
    (history,) = records(program, "history", made["guid"], "--limit", "3").lines
    gone, again = records(program, "delete", made["guid"]), records(program, "delete", made["guid"])

    assert (made["kind"], made["tags"], made["source"]) == ("fact", ["a", "b"], "cli")
    assert (changed["content"], grown["created"], shown["content"]) == (
        "coffee",
        False,
        "coffee\nblack",
    )
    assert listed["items"] == [shown] == [hit["record"] for hit in found["items"]]
    assert (deleted["items"], back["content"]) == ([shown], "coffee")
    assert [
        (one["number"], one["change"], one["actor"], one["reason"]) for one in history["items"]
    ] == [(5, None, None, None), (4, "restore", "cli", "undo"), (3, "delete", "cli", "mistaken")]
    assert (gone.code, gone.lines) == (0, [{"done": True}])
    assert (again.code, again.out) == (
        1,
        "",
    ) and f"no record has the guid '{made['guid']}'" in again.err


def test_all_fields_and_filters_are_available_by_command(program: Program) -> None:
    (made,) = records(
        program,
        "create",
        "kept",
        "--data",
        '{"n": 5, "a.b": [1]}',
        "--in-context",
        "--key",
        "c1",
        "--thread",
        "t",
        "--kind",
        "filtered",
    ).lines
    (changed,) = records(program, "update", made["guid"], "--no-in-context", "--owner", "ada").lines
    wanted = '{"kind": {"eq": "filtered"}, "data.n": {"gt": 4}, "data.\\"a.b\\"": {"contains": 1}}'
    (listed,) = records(program, "list", "--filter", wanted).lines
    (found,) = records(program, "search", "kept", "--filter", '{"in_context": {"eq": true}}').lines
    wrong = records(program, "list", "--filter", '{"kynd": {"eq": 1}}')
    broken = records(program, "list", "--filter", "{kind")
    long = records(program, "create", "tea", "--data", '{"n": 18446744073709551616}')

    assert (made["data"], made["in_context"], made["seq"]) == ({"n": 5, "a.b": [1]}, True, 0)
    assert (changed["in_context"], changed["owner"], changed["data"]) == (
        False,
        "ada",
        made["data"],
    )
    assert (listed["items"], found["items"]) == ([changed], [])
    assert (
        wrong.code == 1 and "filter.kynd: unknown field 'kynd' (did you mean 'kind'?)" in wrong.err
    )
    assert broken.code == 1 and "filter: not JSON" in broken.err
    assert long.code == 1 and "data: the integer 18446744073709551616 has more than" in long.err


def test_tags_have_the_same_syntax_as_in_blocks(program: Program) -> None:
    made = [
        records(program, "create", "tagged", *words).lines[0]["tags"]
        for words in (
            ("--tags", "a, b,a"),
            ("--tags", "a,b", "--tags", "c"),
            ("--tags", '["a,b", "c"]'),
        )
    ]
    (listed,) = records(program, "list", "--tags", "a,c", "--kind", "observation").lines
    wrong = records(program, "create", "tagged", "--tags", '["a"')

    assert made == [["a", "b"], ["a", "b", "c"], ["a,b", "c"]]
    assert [one["tags"] for one in listed["items"]] == [["a", "b", "c"]]
    assert wrong.code == 1 and "tags: tags are a JSON array" in wrong.err


def test_a_repeated_idempotency_key_has_one_effect(program: Program) -> None:
    first, second = (
        records(program, "create", "once", "--idempotency-key", "k1").lines for _ in range(2)
    )
    other = records(program, "create", "twice", "--idempotency-key", "k1")
    empty = records(program, "create", "thrice", "--idempotency-key", "")

    assert first == second
    assert (empty.code, empty.out) == (2, "") and "1 to 256 printable characters" in empty.err
    assert (
        (other.code, other.out) == (1, "")
        and "'k1' was used" in other.err
        and "a key of its own" in other.err
    )


def test_all_faults_are_reported_at_once(program: Program) -> None:
    ended = records(program, "list", "--limit", "0", "--order", "up")

    assert (ended.code, ended.out) == (1, "")
    assert (
        "limit: must be greater than or equal to 1" in ended.err
        and "order: must be 'asc' or 'desc'" in ended.err
    )
    assert records(program, "list", "--limit", "x").code == 2
    assert "names no store" in records(program, "list", "--store", "instances/other/x").err


def test_an_unknown_pipeline_lists_the_active_ones(program: Program) -> None:
    ended = program.run("records", "list", "nobody")

    assert ended.code == 1 and uid_of(program) in ended.err


@pytest.mark.parametrize(
    "operation", all_operations().values(), ids=lambda operation: operation.name
)
def test_every_operation_is_a_command_with_all_of_its_fields(
    program: Program, operation: object
) -> None:
    text = program.run(*operation.name.replace("_", "-").split("."), "--help").out
    schema = input_schema(operation)
    required = positional_fields(operation) + schema["required"]

    for name in schema["properties"]:
        is_caller = name == "agent" and operation.has_caller
        is_argument = name in OPTIONAL_ARGUMENTS or (name in required and not is_caller)
        assert (f"{name.upper()}" if is_argument else f"--{name.replace('_', '-')}") in text
    assert ("--idempotency-key" in text) is operation.mutates


def test_knowledge_is_searched_with_and_without_a_query(program: Program) -> None:
    (memory,) = program.run("memories", "create", "memory_test", "customer").lines
    (entry,) = program.run("entries", "create", "memory_test", memory["id"], "Ada likes tea").lines

    for words in (["tea"], []):
        (found,) = program.run(
            "knowledge", "search", "memory_test", *words, "--memory-ids", memory["id"]
        ).lines
        assert [one["entry_id"] for one in found["results"]] == [entry["id"]]


def test_items_of_a_langgraph_store_are_written_and_found_by_command(program: Program) -> None:
    item = '{"scope": "users.ada", "key": "diet", "data": {"value": {"food": "pizza"}}}'

    (put,) = records(program, "put", item).lines
    (found,) = records(program, "find", "users.ada", "diet").lines
    (scopes,) = records(program, "scopes", "--prefix", "users").lines
    broken = records(program, "put", "{food")

    assert (put["created"], found["items"][0]["data"]["value"]) == (1, {"food": "pizza"})
    assert scopes == {"scopes": ["users.ada"], "total": 1}
    assert broken.code == 1 and "items" in broken.err
