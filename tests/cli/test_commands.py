"""Commands without a bus: output, rejected input, and error messages."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle
from tests.support.program import Program

SAMPLE = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines" / "memory_test.json"


@pytest.fixture
def program() -> Iterator[Program]:
    """Yield a program without a pipeline and without a bus."""
    with Program() as program:
        yield program


def write_bundle(program: Program, bundle: Any, name: str = "bundle.json") -> Path:
    file = program.folder / name
    file.write_bytes(bundle if isinstance(bundle, bytes) else orjson.dumps(bundle))
    return file


def make_faulty() -> dict[str, Any]:
    """Return a bundle with three faults and a warning."""
    unknown = make_agent("one", "memory_wirte")
    misspelt = make_agent("two", "add_1") | {"agent_form": "User"}
    refused = make_agent("three", "regex_match", {"pattern": "(a"})
    return make_bundle(
        "a3d8f1b2",
        unknown,
        misspelt,
        refused,
        make_agent("dispatch_write", "add_1", senders="dispatch_wirte"),
    )


@pytest.mark.parametrize("command", ["check", "deploy"])
def test_all_faults_of_a_bundle_are_reported_with_place_rule_and_suggestion(
    program: Program, command: str
) -> None:
    file = write_bundle(program, make_faulty())

    ended = program.run(command, file)

    assert (ended.code, ended.out) == (1, "")
    lines = ended.err.splitlines()
    assert len(lines) == 4 and all(line.startswith(f"{file}: ") for line in lines)
    for typo, meant in (
        ("memory_wirte", "memory_write"),
        ("agent_form", "agent_from"),
        ("dispatch_wirte", "dispatch_write"),
    ):
        assert any(typo in line and f'did you mean "{meant}"?' in line for line in lines), ended.err
    assert any("RE2" in line for line in lines)


@pytest.mark.parametrize("text", [b"", b"[]", b'{"agents": [', b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_is_not_a_bundle_is_rejected_without_a_traceback(
    program: Program, text: bytes
) -> None:
    ended = program.run("deploy", write_bundle(program, text))

    assert (ended.code, ended.out) == (1, "")
    assert "bundle.json" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize("file", ["nowhere.json", "."])
def test_an_unreadable_file_is_named(program: Program, file: str) -> None:
    ended = program.run("check", file)

    assert ended.code == 1
    assert ended.err.startswith(f"memrelay: {file}: ") and "Traceback" not in ended.err


def test_a_check_changes_nothing(program: Program) -> None:
    ended = program.run("check", SAMPLE)

    assert (ended.code, ended.err) == (0, "")
    assert ended.lines == [{"ok": True, "name": "memory_test", "agents": 14, "warnings": 0}]
    assert not program.root.exists()


def test_a_check_prints_the_next_runs_of_schedules(program: Program) -> None:
    secrets = '[{"ref": "env:DIGEST_URL", "hosts": ["hooks.example.com"]}]'
    (line,) = program.run(
        "check",
        str(Path(SAMPLE).parent / "daily_digest.json"),
        MEMRELAY_OUTGOING__SECRETS=secrets,
        DIGEST_URL="https://hooks.example.com/team",
    ).lines

    runs = [datetime.fromisoformat(run) for run in line["next_runs"]["morning"]]
    assert len(runs) == 3 and runs == sorted(runs) and runs[0] > datetime.now(UTC)
    assert {(run.hour, run.minute) for run in runs} == {(9, 0)}
    assert {run.utcoffset() for run in runs} <= {timedelta(hours=1), timedelta(hours=2)}


@pytest.mark.parametrize(
    "words",
    [
        ("ls",),
        ("status",),
        ("versions", "tea"),
        ("export", "tea"),
        ("rollback", "tea"),
        ("rm", "tea"),
        ("say", "tea", "hello"),
        ("send", "tea", "hello"),
        ("chat", "tea"),
        ("tail", "tea"),
        ("search", "tea", "hello"),
        ("records", "list", "tea"),
        ("keys", "ls"),
        ("keys", "revoke", "tea"),
        ("dlq", "ls"),
        ("dlq", "drop", "tea", "--all"),
        ("acl", "tea"),
        ("reindex", "tea"),
        ("scrub",),
        ("erase", "tea", "--guid", "x"),
    ],
)
def test_a_mistyped_memory_root_is_named_and_not_created(
    program: Program, words: tuple[str, ...]
) -> None:
    ended = program.run(*words, MEMRELAY_BUS__URL="unix:///nobody.sock")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(
        f"memrelay: nothing is stored in {program.root}; correct memory.root"
    )
    assert not program.root.exists()


def test_a_deploy_prints_the_active_version_and_ls_lists_it(program: Program) -> None:
    (deployed,) = program.run("deploy", SAMPLE, "--uid", "a3d8f1b2").lines

    (listed,) = program.run("ls").lines

    assert deployed.keys() == {"pipeline_uid", "name", "hash", "version", "served"}
    assert (deployed["pipeline_uid"], deployed["name"], deployed["version"]) == (
        "a3d8f1b2",
        "memory_test",
        1,
    )
    assert deployed.pop("served") is False, "no worker runs"
    assert listed == deployed | {"deployed_at": listed["deployed_at"]}


@pytest.mark.parametrize(
    "words", [("keys", "revoke"), ("rollback",), ("dlq", "show", "a3d8f1b2"), ("backup", "--to")]
)
def test_an_argument_that_is_not_utf8_is_rejected_without_a_traceback(
    program: Program, words: tuple[str, ...]
) -> None:
    program.run("deploy", SAMPLE, "--uid", "a3d8f1b2")

    ended = program.run(*words, "caf\udce9")

    assert ended.code == 1
    assert ended.err.startswith(
        "memrelay: arguments and file names must be text in UTF-8; this is not: "
    )
    assert "\n" not in ended.err.rstrip()


def test_a_changed_bundle_is_a_new_version_and_the_same_bundle_is_not(program: Program) -> None:
    first = write_bundle(program, make_bundle("a3d8f1b2"))
    second = write_bundle(
        program, make_bundle("a3d8f1b2", make_agent("plus", "add_1")), "second.json"
    )

    versions = [program.run("deploy", file).lines[0]["version"] for file in (first, first, second)]

    assert versions == [1, 1, 2]
    assert len(program.run("ls").lines) == 1


def test_a_deploy_notes_a_duplicate_name_and_a_renamed_pipeline(
    program: Program,
) -> None:
    program.run("deploy", write_bundle(program, make_bundle("a3d8f1b2", name="notes")))

    namesake = program.run("deploy", write_bundle(program, make_bundle("b3d8f1b2", name="notes")))
    other = program.run("deploy", write_bundle(program, make_bundle("a3d8f1b2", name="tasks")))

    assert (namesake.code, other.code) == (0, 0)
    assert (
        "pipeline a3d8f1b2 is also named notes" in namesake.err and "--uid a3d8f1b2" in namesake.err
    )
    assert "pipeline a3d8f1b2 was named notes; now it is tasks" in other.err


def test_an_invalid_bundle_leaves_the_old_one_active(program: Program) -> None:
    (deployed,) = program.run("deploy", write_bundle(program, make_bundle("a3d8f1b2"))).lines

    refused = program.run("deploy", write_bundle(program, make_faulty()))

    assert refused.code == 1
    assert [one["hash"] for one in program.run("ls").lines] == [deployed["hash"]]


def test_a_bundle_without_a_uid_gets_a_new_one_at_each_deploy(program: Program) -> None:
    uids = [program.run("deploy", SAMPLE).lines[0]["pipeline_uid"] for _ in range(2)]

    ended = program.run("rm", "memory_test")

    assert uids[0] != uids[1] and all(len(uid) == 8 for uid in uids)
    assert ended.code == 1
    assert all(uid in ended.err for uid in ("2 pipelines are named 'memory_test'", *uids))


def test_a_pipeline_is_removed_by_its_uid(program: Program) -> None:
    program.run("deploy", SAMPLE, "--uid", "a3d8f1b2")

    removed, again = program.run("rm", "a3d8f1b2"), program.run("rm", "a3d8f1b2")

    assert (removed.code, removed.lines) == (0, [{"removed": "a3d8f1b2", "name": "memory_test"}])
    assert again.code == 1 and "no pipeline 'a3d8f1b2'" in again.err
    assert program.run("ls").lines == []


def test_say_without_a_bus_names_the_fix(program: Program) -> None:
    program.run("deploy", SAMPLE)

    ended = program.run("say", "memory_test", "/read")

    assert (ended.code, ended.out) == (1, "")
    assert "no bus runs" in ended.err and "make up" in ended.err and "Traceback" not in ended.err


def test_say_to_an_unknown_pipeline_lists_the_active_ones(program: Program) -> None:
    program.run("deploy", SAMPLE, "--uid", "a3d8f1b2")

    ended = program.run("say", "memory_tset", "/read")

    assert ended.code == 1
    assert "'memory_tset'" in ended.err and "memory_test (a3d8f1b2)" in ended.err


@pytest.mark.parametrize("url", ["unix:///nowhere/bus.sock", "redis://127.0.0.1:1"])
def test_say_on_an_unreachable_bus_names_its_address(program: Program, url: str) -> None:
    program.run("deploy", SAMPLE)

    ended = program.run("say", "memory_test", "/read", MEMRELAY_BUS__URL=url)

    assert ended.code == 1
    assert url in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize("name", ["MEMRELAY_BUS__URLL", "MEMRELAY_WORKER__BATCH"])
def test_an_invalid_setting_is_named(program: Program, name: str) -> None:
    ended = program.run("ls", **{name: "tea"})

    assert ended.code == 1
    assert name in ended.err and "Traceback" not in ended.err


def test_a_damaged_control_plane_is_named(program: Program) -> None:
    program.root.mkdir()
    (program.root / "system.db").write_bytes(b"no database at all" * 100)

    ended = program.run("ls")

    assert ended.code == 1
    assert str(program.root / "system.db") in ended.err and "Traceback" not in ended.err


def test_a_memory_root_that_cannot_be_created_is_named(program: Program) -> None:
    program.root.write_text("a file stands here")

    ended = program.run("ls")

    assert ended.code == 1
    assert str(program.root) in ended.err and "Traceback" not in ended.err
