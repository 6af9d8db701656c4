"""Each command once as a real process. All other tests run commands in the test process.

`up`, `worker`, `web` and `bus` are processes in all tests.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.cli.main import COMMANDS
from tests.cli.serving import serving
from tests.support.postgres import Postgres
from tests.support.program import SERVING, Program
from tests.support.tiers import first_always
from tests.support.waiting import wait_for

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"
CALLS = {
    "deploy": f"deploy {SAMPLE} --uid third",
    "blocks": "blocks",
    "new": "new block created",
    "check": f"check {SAMPLE}",
    "test": "test first questions.yaml",
    "deliveries": "deliveries list first",
    "endpoints": "endpoints list first",
    "export": "export first --records -o records.jsonl",
    "import": "import first records.jsonl",
    "rollback": "rollback first --to 1",
    "versions": "versions first",
    "mcp": "mcp --print claude-code first",
    "ls": "ls",
    "chat": "chat first",
    "say": "say first hello",
    "send": "send first hello",
    "webhooks": "webhooks first",
    "records": "records list first",
    "memories": "memories list first",
    "entries": "entries list first MEMORY",
    "knowledge": "knowledge search first tea",
    "items": "items put first a1 key value --agent a1",
    "grants": "grants list first --agent a1",
    "stores": "stores list first --agent a1",
    "contexts": "contexts list first",
    **{
        noun: f"{noun} list first"
        for noun in ("facts", "procedures", "episodes", "users", "checkpoints")
    },
    "turns": "turns threads first",
    "extraction": "extraction status first",
    "capture": "capture sessions first",
    "conversations": "conversations history first --user Ada",
    "memory-tool": 'memory-tool read first {"command":"stores"} --agent a1',
    "changes": "changes list first",
    "waiting-messages": "waiting-messages list first",
    "message-timings": "message-timings list first 1780000000000-0",
    "inputs": "inputs list first",
    "policies": "policies list first",
    "policy": "policy scan first",
    "reviews": "reviews list first",
    "receipts": "receipts list first",
    "receipt": "receipt first RECEIPT --verify",
    "replay": "replay first --dry-run",
    "rehearsals": "rehearsals list first",
    "rehearse": f"rehearse first --bundle {SAMPLE} --messages messages.txt",
    **{
        noun: f"{noun} list first"
        for noun in (
            "recipes",
            "rules",
            "graph-templates",
            "view-templates",
            "graph-views",
            "views",
        )
    },
    "documents": "documents collections first",
    "instances": "instances list first kv",
    "kv": "kv set first app prefs theme dark --auto-create",
    "events": "events append first log --auto-create "
    '{"stream_id":"s","event_type":"e","payload":{}}',
    "graph": "graph list-nodes first team",
    "knowledge-graph": "knowledge-graph create-entities first "
    '{"name":"Ada","entity_type":"person","observations":[]}',
    "assembly": "assembly assemble first {}",
    "reseal": "reseal first",
    "erase": "erase first --text hello",
    "undo": "undo first --source nobody",
    "search": "search first tea",
    "tail": "tail first --no-follow",
    "backup": "backup --to copied",
    "scrub": "scrub",
    "reindex": "reindex first",
    "status": "status",
    "dlq": "dlq ls",
    "doctor": "doctor",
    "keys": "keys ls",
    "acl": "acl first",
    "completion": "completion bash",
    "restore": "restore saved --force",
    "salvage": "salvage first --force",
    "move-storage": "move-storage --force",
    "rm": "rm second",
}
SEAL_KEYS = {"MEMRELAY_MEMORY__SEAL_KEYS": "env:SEAL_KEY", "SEAL_KEY": "ab" * 32}
# These need a memory root without a worker.
OFFLINE = ("restore", "salvage", "move-storage")


@pytest.fixture(scope="module")
def program() -> Iterator[Program]:
    """Yield a running program with two pipelines and a restored backup in another memory root."""
    with serving() as program:
        for uid in ("first", "second"):
            program.run("deploy", SAMPLE, "--uid", uid)
        program.run("say", "first", "/write tea")
        questions = program.folder / "questions.yaml"
        questions.write_text("questions: [{question: tea, must: [tea]}]")
        program.run("export", "first", "--records", "-o", "records.jsonl")
        (program.folder / "messages.txt").write_text("/write tea\n")
        program.run("backup", "--to", "saved")
        assert program.run("restore", "saved", **offline_root(program)).code == 0
        yield program


@pytest.fixture(scope="module")
def memory_id(program: Program) -> str:
    """Return the id of a named memory. A graph exists too."""
    program.run("instances", "create", "first", "graph", "team")
    (memory,) = program.run("memories", "create", "first", "facts").lines
    return str(memory["id"])


def find_receipt(program: Program) -> str:
    """Return the id of a receipt that a search leaves after up to a second."""
    program.run("records", "search", "first", "tea", "--receipt")
    wait_for(lambda: _receipts(program), "the receipt is written")
    return str(_receipts(program)[0]["id"])


def _receipts(program: Program) -> list[dict[str, object]]:
    found: list[dict[str, object]] = program.run("receipts", "list", "first").lines[0]["items"]
    return found


def offline_root(program: Program) -> dict[str, str]:
    return {"MEMRELAY_MEMORY__ROOT": str(program.folder / "offline")}


def test_every_command_has_a_call() -> None:
    assert CALLS.keys() | set(SERVING) == COMMANDS.keys()


@pytest.mark.parametrize("name", first_always(*CALLS))
def test_a_command_runs_as_a_process(
    program: Program, memory_id: str, name: str, request: pytest.FixtureRequest
) -> None:
    words = CALLS[name].replace("MEMORY", memory_id).split()
    words = [find_receipt(program) if word == "RECEIPT" else word for word in words]
    environment = offline_root(program) if name in OFFLINE else {}
    if name == "move-storage":
        server: Postgres = request.getfixturevalue("postgres")
        environment["MEMRELAY_STORAGE__URL"] = server.create_database()
    environment |= SEAL_KEYS if name == "reseal" else {}

    ended = program.run_process(*words, **environment)

    assert (ended.code, "Traceback" in ended.err) == (0, False), ended


@pytest.mark.parametrize(
    ("text", "value"), [("green tea", "green tea"), ('{"a": [1]}', {"a": [1]}), ("null", None)]
)
def test_a_value_on_the_command_line_is_json_or_text(
    program: Program, text: str, value: object
) -> None:
    program.run("items", "put", "first", "chat:c", "k", text, "--agent", "a1", "--chat", "chat:c")

    (entry,) = program.run(
        "items", "get", "first", "chat:c", "k", "--agent", "a1", "--chat", "chat:c"
    ).lines

    assert entry["value"] == value


@pytest.mark.parametrize("text", ['{"a": 1', '["a"', '"a', " {a: 1}"])
def test_a_value_that_begins_like_json_must_be_json(program: Program, text: str) -> None:
    ended = program.run("items", "put", "first", "a1", "broken", text, "--agent", "a1")

    assert ended.code == 1 and "value: not JSON" in ended.err, ended
    got = program.run("items", "get", "first", "a1", "broken", "--agent", "a1")
    assert "no entry has the key 'broken'" in got.err


def test_a_tool_call_is_an_argument(program: Program) -> None:
    ended = program.run("memory-tool", "read", "first", '{"command": "stores"}', "--agent", "a1")

    assert ended.code == 0 and ended.lines[0]["value"]["stores"][0]["storeId"] == "a1", ended
    assert program.run("memory-tool", "read", "first", "{", "--agent", "a1").code == 1


def test_a_read_of_the_past_names_its_state_on_stderr(program: Program) -> None:
    read = program.run("records", "list", "first", "--as-of", "n:1")

    assert [item["content"] for item in read.lines[0]["items"]] == ["tea"]
    assert re.fullmatch(r"as of 20\S+Z \(n:1\)\n", read.err)
