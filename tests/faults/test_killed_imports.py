"""An import whose importer or worker is killed halfway, and then repeated."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest

from tests.support.bundles import make_bundle
from tests.support.client import Client
from tests.support.program import COMMAND, Program
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
UID, ITEMS = "killed1", 12_000


@pytest.fixture
def up() -> Iterator[Program]:
    with Program() as program:
        program.up()
        (program.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle(UID, name=UID)))
        assert program.run("deploy", "bundle.json").code == 0
        with (program.folder / "mem0.jsonl").open("w") as file:
            for number in range(ITEMS):
                text = f"fact number {number}"
                file.write(json.dumps({"id": number, "memory": text, "user_id": "ada"}) + "\n")
        yield program


@contextmanager
def importing(program: Program) -> Iterator[subprocess.Popen[bytes]]:
    """Run an import in a process, and yield when about a third of the calls have arrived."""
    client = program.client()
    before = entries_added(client)
    with subprocess.Popen(
        [*COMMAND, "import", UID, "mem0.jsonl", "--from", "mem0", "--wait", "5"],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(lambda: entries_added(client) >= before + 4, "some calls arrived")
            assert process.poll() is None
            yield process
        finally:
            process.kill()


def entries_added(client: Client) -> int:
    """Return how many inputs the pipeline has had."""
    found = client.redis.xinfo_stream(f"pipeline:{{{UID}}}:in")
    return int(found["entries-added"])


def check_repeated_import(program: Program) -> None:
    """Repeat the import. Each item exists once then."""
    ended = program.run("import", UID, "mem0.jsonl", "--from", "mem0", "--json")
    assert ended.code == 0, ended.err
    report = ended.lines[0]
    assert report["read"] == report["added"] + report["same"] == ITEMS
    assert report["added"] and report["same"]
    exported = program.run("export", UID, "--as", "mem0", "-o", "after.json")
    assert exported.code == 0, exported.err
    after = json.loads((program.folder / "after.json").read_text())["results"]
    texts = [one["memory"] for one in after]
    assert sorted(texts) == sorted(f"fact number {number}" for number in range(ITEMS))


def test_a_killed_importer_leaves_whole_items_and_a_second_run_adds_the_rest(up: Program) -> None:
    with importing(up) as process:
        os.kill(process.pid, signal.SIGKILL)

    check_repeated_import(up)


def test_a_killed_worker_leaves_whole_items_and_a_second_run_adds_the_rest(up: Program) -> None:
    with importing(up):
        up.end(signal.SIGKILL)
    up.up()

    check_repeated_import(up)
