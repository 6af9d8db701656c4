"""`memrelay rehearse`: what another bundle would have made of the messages."""

import json
from pathlib import Path

import pytest

from tests.support.bundles import make_bundle, make_memory, make_relay
from tests.support.program import Program

UID = "rehearsed"
WRITE, KEEP = make_relay("write", "^/write (.*)", flags="s"), make_memory("write")


@pytest.fixture(scope="module")
def program(served: Program) -> Program:
    """Return a running program with a pipeline that keeps its inputs."""
    write(served, "bundle.json", WRITE, inputs_days=7)
    served.run("deploy", "bundle.json", "--uid", UID)
    for text in ("/write tea is hot", "/write coffee"):
        served.run("say", UID, text)
    write(served, "candidate.json", make_relay("write", "^/write (tea) (.*)", group=1))
    return served


def write(program: Program, name: str, *agents: object, **keys: object) -> None:
    bundle = make_bundle(UID, *agents, KEEP, **keys)  # type: ignore[arg-type]
    (program.folder / name).write_text(json.dumps(bundle))


def test_the_difference_is_printed_as_text(program: Program) -> None:
    ended = program.run("rehearse", UID, "--bundle", "candidate.json", "--junit", "found.xml")

    assert ended.code == 0, ended
    assert "inputs     2 rehearsed, 0 not" in ended.out
    assert "    tea[- is hot-]" in ended.out and "  - coffee" in ended.out
    junit = (Path(program.folder) / "found.xml").read_text()
    assert "1 records missing" in junit and "tests='9'" in junit


def test_the_report_is_printed_as_json(program: Program) -> None:
    messages = '/write tea\n{"text": "/write milk", "user": "User"}\n'
    (program.folder / "messages.txt").write_text(messages)

    ended = program.run(
        *("rehearse", UID, "--bundle", "candidate.json", "--json"),
        *("--messages", "messages.txt"),
    )

    (report,) = ended.lines
    assert report["inputs"]["rehearsed"] == 2 and report["counts"]["records_missing"] == 2
    listed = program.run("rehearsals", "list", UID).lines
    assert report["id"] in json.dumps(listed)


def test_a_rehearsal_that_cannot_run_says_why(program: Program) -> None:
    (program.folder / "wrong.json").write_text('{"agents": [{"agent_class": "none"}]}')

    failed = program.run("rehearse", UID, "--bundle", "wrong.json")
    missing = program.run("rehearse", UID, "--bundle", "no.json")

    assert failed.code == 1 and "the candidate has faults" in failed.out, failed
    assert missing.code == 1 and "no.json: No such file" in missing.err
