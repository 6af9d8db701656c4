"""`memrelay export --records` and `memrelay import`: all records to a file and back."""

import os
import subprocess
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.errors import BadExport
from memrelay.memory.models.named_memories.export import ExportedMemory
from memrelay.memory.records.ids import UID
from memrelay.memory.transfer.export import make_row_line, read_export, verify_export
from tests.cli.terminal import Terminal
from tests.support.bundles import make_bundle
from tests.support.calls import refused
from tests.support.program import COMMAND, Completed, Program
from tests.support.program_calls import bus_of, deploy, one

SOURCE, TARGET = "source1", "target1"
STORE = "instances/${pipeline_uid}/memories"


@pytest.fixture(scope="module")
def up() -> Iterator[Program]:
    with Program() as program:
        program.up()
        for uid in (SOURCE, TARGET):
            deploy(program, uid)
        fill(program)
        yield program
        assert program.end() == 0


def fill(program: Program) -> None:
    """Create records of every kind, also edited, deleted and very long ones, and a named memory."""
    made = one(
        program,
        SOURCE,
        "records.create",
        content="tea é ☕ \u2028",
        data={"a": [1.5]},
        tags=["x"],
        thread="t",
    )
    one(program, SOURCE, "records.update", guid=made["guid"], content="coffee", reason="changed")
    one(program, SOURCE, "records.append", content="black", guid=made["guid"])
    gone = one(program, SOURCE, "records.create", content="gone", expires_at="2999-01-01")
    one(program, SOURCE, "records.delete", guid=gone["guid"])
    long = one(program, SOURCE, "records.create", content='begin " \\')
    for number in range(12):
        one(
            program,
            SOURCE,
            "records.append",
            content=f"{number} " + "ß" * 60_000,
            guid=long["guid"],
        )
    memory = one(program, SOURCE, "memories.create", name="facts")
    for _ in range(2):
        one(
            program,
            SOURCE,
            "entries.create",
            memory_id=memory["id"],
            content="The sky is blue on most days of the year",
        )


def export(program: Program, uid: str, name: str) -> list[bytes]:
    ended = program.run("export", uid, "--records", "-o", name)
    assert (ended.code, ended.out.partition(":")[0]) == (0, name), ended.err
    return (program.folder / name).read_bytes().splitlines(keepends=True)


def run_import(
    program: Program, *options: str, file: str = "out.jsonl", uid: str = TARGET
) -> Completed:
    return program.run("import", uid, file, "--json", *options)


def test_an_export_writes_into_an_existing_pipe(up: Program) -> None:
    whole = export(up, SOURCE, "whole.jsonl")
    os.mkfifo(pipe := up.folder / "pipe")
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        ended = up.run("export", SOURCE, "--records", "-o", "pipe")

    assert (ended.code, ended.out) == (0, "") and pipe.is_fifo()
    assert read.result().splitlines(keepends=True)[1:] == whole[1:]


def test_a_missing_folder_is_named(up: Program) -> None:
    ended = up.run("export", SOURCE, "--records", "-o", "none/whole.jsonl")

    assert ended.code == 1
    missing = up.folder.resolve() / "none"
    assert ended.err == f"memrelay: {missing} is not a folder; create it, or use another file\n"


def test_a_closed_reader_of_stdout_is_not_a_failure(up: Program) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*COMMAND, "export", SOURCE, "--records"],
        cwd=up.folder,
        env=up.environment,
        stdout=pipe,
        stderr=pipe,
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        begun = command.stdout.read(1)
        command.stdout.close()

        assert (begun, command.stderr.read(), command.wait(60)) == (b"{", b"", 0)


def test_an_import_from_a_pipe_is_rejected_because_it_reads_the_file_twice(
    up: Program,
) -> None:
    export(up, SOURCE, "whole.jsonl")

    ended = up.run_process(
        "import", TARGET, "/dev/stdin", stdin=(up.folder / "whole.jsonl").read_bytes()
    )

    assert ended.code == 1 and "save it to a file" in ended.err, ended


def test_an_export_of_an_import_differs_only_in_the_header(
    up: Program,
) -> None:
    header, *rest = export(up, SOURCE, "out.jsonl")

    first, again = run_import(up), run_import(up)

    lines = len(rest) - 1 - sum(line.startswith(b'{"store"') for line in rest)
    assert first.lines == [{"added": lines, "same": 0, "replaced": 0}], first.err
    assert again.lines == [{"added": 0, "same": lines, "replaced": 0}]
    assert export(up, TARGET, "again.jsonl")[1:] == rest
    assert orjson.loads(header)["pipeline_uid"] == SOURCE
    assert orjson.loads(rest[-1])["end"] | {"sha256": ""} == {
        "records": 3,
        "versions": 15,
        "memories": 1,
        "sha256": "",
    }
    assert up.run("scrub", TARGET).code == 0


def test_imported_records_work_as_if_they_were_created_in_the_pipeline(up: Program) -> None:
    run_import(up)
    (memory,) = one(up, TARGET, "memories.list")["items"]
    (entry,) = one(up, TARGET, "entries.list", memory_id=memory["id"])["items"]
    same = one(up, TARGET, "entries.create", memory_id=memory["id"], content=entry["content"])
    (deleted,) = one(up, TARGET, "records.list", deleted=True)["items"]
    (found,) = one(up, TARGET, "records.search", query="coffee")["items"]

    assert memory["id"].startswith(f"mem_{TARGET}_") and entry["content"].startswith("The sky")
    assert same["action"] == "skipped"
    assert (deleted["content"], deleted["scope"]) == ("gone", f"instances/{TARGET}/memories")
    assert found["record"]["content"] == "coffee\nblack"


def test_pieces_of_long_lines_of_concurrent_imports_are_not_mixed(up: Program) -> None:
    lines = {of: made_up(guid=of * 32, content=of * 60) for of in "ab"}
    half = len(lines["a"]) // 2
    for of, line in lines.items():
        one(up, TARGET, "records.import", piece=line[:half], at=0, of=of)

    for of, line in lines.items():
        one(up, TARGET, "records.import", lines=[line[half:]], at=half, of=of)

    contents = [one(up, TARGET, "records.get", guid=of * 32)["content"] for of in lines]
    assert contents == ["a" * 60, "b" * 60]
    assert (
        "the earlier pieces of a long line are missing"
        in refused(bus_of(up), TARGET, "records.import", {"lines": [lines["a"]], "at": half})[1]
    )
    one(up, TARGET, "records.erase", guids=[of * 32 for of in lines])


def test_a_conflict_is_named_and_is_replaced_on_demand(up: Program) -> None:
    exported = export(up, SOURCE, "out.jsonl")
    run_import(up, "--replace")
    changed = one(up, TARGET, "records.list")["items"][0]
    one(up, TARGET, "records.update", guid=changed["guid"], content="another")

    refused, replaced = run_import(up), run_import(up, "--replace")

    assert (
        refused.code == 1
        and f"record {changed['guid']}: the store has different data" in refused.err
    )
    assert replaced.lines[0]["replaced"] >= 1
    assert sorted(export(up, TARGET, "again.jsonl")[1:-1]) == sorted(exported[1:-1])


def test_a_truncated_or_changed_file_is_rejected_before_any_change(up: Program) -> None:
    data = b"".join(export(up, SOURCE, "out.jsonl"))
    bad = Path(up.folder, "bad.jsonl")
    for spoilt in (
        data[:-20],
        data[:-1],
        data.replace(b"coffee", b"cocoa!"),
        b"",
        b"{}\n",
        data.replace(b'_export":1', b'_export":9'),
    ):
        bad.write_bytes(spoilt)
        with pytest.raises(BadExport, match=r"bad\.jsonl"):
            verify_export(bad)

    ended = run_import(up, file="bad.jsonl")

    assert ended.code == 1 and ended.err.startswith("memrelay: bad.jsonl "), ended.err


HEADER = (
    b'{"memrelay_export":1,"made_at":1,"memrelay":"1","pipeline_uid":"u","pipeline_name":"n"}\n'
)


@pytest.mark.parametrize(
    ("beginning", "fault"), [(b"", "is not an export"), (HEADER, "is truncated")]
)
def test_an_endless_line_is_rejected_without_being_kept_in_memory(
    tmp_path: Path, beginning: bytes, fault: str
) -> None:
    path = tmp_path / "endless"
    path.write_bytes(beginning)
    os.truncate(path, 200 << 20)
    tracemalloc.start()

    with pytest.raises(BadExport, match=fault):
        verify_export(path)

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8 << 20


def test_a_line_that_is_too_long_for_an_import_is_named(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(HEADER + b'{"record":' + b"x" * 1000)

    with pytest.raises(
        BadExport, match=r"has a line of more than 100 bytes, .* begins with b'{\"record\":xx"
    ):
        list(read_export(path, longest=100))


def test_one_store_can_be_exported_to_stdout(up: Program) -> None:
    printed = up.run("export", SOURCE, "--records", "--store", f"instances/{SOURCE}/memories")
    wrong = up.run("export", SOURCE, "--records", "--store", "instances/x/y")

    assert printed.out.count("\n") > 10
    assert wrong.code == 1 and "has no store 'instances/x/y'" in wrong.err
    assert up.run("export", SOURCE, "--store", "x").code == 1
    assert not list(up.root.glob(".export-*"))


def rewritten(program: Program, name: str, *lines: bytes) -> None:
    """Write a file with these lines and a valid digest."""
    header, *_ = export(program, SOURCE, "out.jsonl")
    end = {
        "end": {
            "records": 1,
            "versions": 0,
            "memories": 0,
            "sha256": sha256(b"".join(lines)).hexdigest(),
        }
    }
    (program.folder / name).write_bytes(b"".join([header, *lines, orjson.dumps(end) + b"\n"]))


@pytest.mark.parametrize("line", [b"\xff\n", b'{"store":5}\n'])
def test_a_forged_file_is_rejected_without_a_traceback(up: Program, line: bytes) -> None:
    rewritten(up, "bad.jsonl", line)

    ended = run_import(up, file="bad.jsonl")

    assert ended.code == 1 and ended.err.startswith("memrelay: bad.jsonl has an invalid line"), (
        ended.err
    )


def made_up(**given: Any) -> str:
    """Return an export line with one record."""
    record = {
        "guid": "made-up",
        "number": 1,
        "scope": "",
        "kind": "",
        "source": "",
        "tags": "[]",
        "created_at": 0,
        "updated_at": 0,
        "content": "x",
    }
    return orjson.dumps({"record": record | given}).decode()


@pytest.mark.parametrize(
    "given",
    [
        {"created_at": 2**62},
        {"updated_at": -1},
        {"expires_at": 2**60},
        {"number": 2**63 - 1},
        {"number": 0},
        {"data": '{"a":' + "[" * 300 + "]" * 300 + "}"},
        {"data": '{"a":"' + "x" * 70_000 + '"}'},
        {"data": '{"a\\u0000":1}'},
    ],
)
def test_a_record_that_no_list_could_return_is_rejected(up: Program, given: dict[str, Any]) -> None:
    code, _ = refused(bus_of(up), TARGET, "records.import", {"lines": [made_up(**given)]})

    assert code == "refused"
    assert one(up, TARGET, "records.list")["total"] >= 0


def test_imported_json_is_normalized_so_that_erasures_find_its_texts(up: Program) -> None:
    line = made_up(tags=' [ "caf\\u00e9" ] ', data=' { "a" : "th\\u00e9" } ')
    for _ in range(2):
        taken = one(up, TARGET, "records.import", lines=[line])
    erased = [
        one(up, TARGET, "records.erase", text="thé"),
        one(up, TARGET, "records.erase", text="café"),
    ]

    assert taken == {"added": 0, "same": 1, "replaced": 0, "merged": 0, "skipped": []}
    assert [each["records"] for each in erased] == [1, 0]


def test_a_memory_of_another_pipeline_keeps_its_id() -> None:
    own, other = (ExportedMemory(f"mem_{uid}_{'0' * 32}", "facts", 0, 0) for uid in ("a", "a_b"))

    rows = [make_row_line(row).without_uid("instances/a/memories").row for row in (own, other)]
    assert rows == [ExportedMemory(f"mem_{UID}_{'0' * 32}", "facts", 0, 0), other]


def test_a_memory_of_another_pipeline_is_not_imported(up: Program) -> None:
    foreign = f"mem_{SOURCE}_{'0' * 32}"
    memory = {"id": foreign, "name": "facts", "created_at": 0, "updated_at": 0}
    for line in (orjson.dumps({"memory": memory}).decode(), made_up(scope=foreign)):
        code, detail = refused(bus_of(up), TARGET, "records.import", {"lines": [line]})

        assert code == "refused" and f"outside pipeline {TARGET}" in detail


def test_an_export_to_a_terminal_escapes_control_characters(up: Program) -> None:
    one(up, TARGET, "records.create", content="\u202etea\x7f")
    with Terminal(up, "export", TARGET, "--records") as terminal:
        assert terminal.end() == 0

    assert "\\u202etea\\u007f" in terminal.seen
    assert not {"\u202e", "\x7f"} & set(terminal.raw.decode())


def test_invalid_lines_are_rejected(up: Program) -> None:
    huge = '{"record":{"guid":"x","number":99999999999999999999}}'
    tags = (
        '{"record":{"guid":"x","number":1,"scope":"","kind":"","source":"","tags":"{","created_at":0,"updated_at":0,'
        '"content":"x"}}'
    )
    memory = '{"memory":{"id":"junk","name":"x","created_at":0,"updated_at":0}}'
    for line in ("", "{}", "[]", '{"record":{}}', huge, "{" * 9000, tags, memory):
        code, detail = refused(bus_of(up), TARGET, "records.import", {"lines": [line]})

        assert code == "refused" and "line of an export" in detail


def test_access_to_stores_is_exported_backed_up_and_erased(up: Program) -> None:
    """Commands visit the built-in store of items, although no bundle names it."""
    for uid in ("items1", "items2"):
        (up.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle(uid, name=uid)))
        assert up.run("deploy", "bundle.json").code == 0
    share = {"agent": "a1", "store": "a1", "grantee": "a2", "level": "readwrite"}
    one(up, "items1", "items.put", agent="a1", store="a1", key="k", value="green tea")
    one(up, "items1", "grants.set", **share)
    one(up, "items1", "contexts.open", sort="chat", id="chat:items1/main", agent="a1")
    one(up, "items1", "stores.configure", agent="a3", enabled=False)

    lines = export(up, "items1", "access.jsonl")
    first, again = (run_import(up, file="access.jsonl", uid="items2") for _ in range(2))

    assert first.lines == [{"added": 4, "same": 0, "replaced": 0}], first.err
    assert again.lines == [{"added": 0, "same": 4, "replaced": 0}]
    assert export(up, "items2", "again.jsonl")[1:] == lines[1:]
    stores = one(up, "items2", "stores.list", agent="a1")["stores"]
    assert [found["store"] for found in stores] == ["a1", "chat:items2/main"]
    assert up.run("backup", "items1", "--to", "saved").code == 0
    assert (up.folder / "saved" / "instances" / "items1" / "stores.db").exists()
    assert up.run("scrub", "items1").code == 0
    assert up.run("erase", "items1", "--text", "a2").code == 0
    assert one(up, "items1", "grants.list", agent="a1")["grants"] == []


def test_an_export_counts_the_internal_items_that_it_omits(up: Program) -> None:
    (up.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle("omits", name="omits")))
    assert up.run("deploy", "bundle.json").code == 0
    for key, given in {"a": {}, "b": {"in_context": False}, "c": {"in_context": False}}.items():
        one(up, "omits", "items.put", agent="a1", store="a1", key=key, value="tea", **given)

    printed, written, whole = (
        up.run("export", "omits", "--records", *words)
        for words in ((), ("-o", "omits.jsonl"), ("--internal",))
    )

    for ended in (printed, written):
        assert "2 internal items omitted; add --internal" in ended.err, ended
    assert len(printed.out.splitlines()) + 2 == len(whole.out.splitlines())
    assert "omitted" not in whole.err
