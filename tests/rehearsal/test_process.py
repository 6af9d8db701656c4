"""A candidate that loops, crashes or floods ends within its limits, and reaches nothing."""

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memrelay.rehearsal import runner
from memrelay.rehearsal.child import BundleInvalid, read_progress, rehearse
from memrelay.rehearsal.process import RehearsalProcess
from tests.rehearsal.helpers import LivePipeline, prepare
from tests.support.bundles import make_agent, make_bundle, make_memory, make_relay
from tests.support.waiting import wait_for

WRITE, KEEP = make_relay("write", "^/write (.*)", flags="s"), make_memory("write")
BUNDLE = make_bundle("p", WRITE, KEEP)
BLOCK = """
import os, socket, subprocess, time
from memrelay.blocks.registry import block
blob = []

@block("harm")
def harm(call, args):
    {harm}
    return call.reply("done")
"""
# What the process may not do, with a word of the error.
FORBIDDEN = {
    "memory": "blob.append(bytes(1 << 30))",
    "socket": "socket.create_connection(('127.0.0.1', 9))",
    "subprocess": "subprocess.run(['true'])",
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LivePipeline]:
    live = LivePipeline(tmp_path / "live", BUNDLE)
    live.say("/write tea", "/write coffee")
    yield live
    live.close()


def prepare_harm(
    live: LivePipeline, tmp_path: Path, harm: str, processor_s: int = 3
) -> RehearsalProcess:
    """Return a rehearsal of a candidate with a block that runs a statement instead of a write."""
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "harm.py").write_text(BLOCK.format(harm=harm))
    candidate = make_bundle("p", WRITE, make_agent("harm", "harm", senders="dispatch_write"))
    folders = [str(tmp_path / "blocks")]
    prepare(live, tmp_path / "r", candidate, block_folders=folders, processor_s=processor_s)
    return RehearsalProcess(tmp_path / "r")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [("while True: pass", "more than 3 s of processor time"), ("os.abort()", "signal 6")],
)
def test_a_candidate_that_ends_the_process_is_reported(
    harm: str, reason: str, live: LivePipeline, tmp_path: Path
) -> None:
    report = prepare_harm(live, tmp_path, harm).run(60)

    assert report["status"] == "failed"
    assert report["reason"].startswith("the candidate: ") and reason in report["reason"]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_a_rehearsal_may_not_do_becomes_a_dead_letter(
    name: str, live: LivePipeline, tmp_path: Path
) -> None:
    """And the live files stay as they are."""
    live.stores.close_all()
    before = digest_files(live.root)

    report = prepare_harm(live, tmp_path, FORBIDDEN[name]).run(60)

    assert report["status"] == "done" and report["own_blocks"] == ["harm"], report
    assert report["counts"] | {"records_missing": 2, "dead_letters": 2} == report["counts"]
    assert name in report["dead_letters"][0]["candidate"]["error"].lower()
    assert digest_files(live.root) == before


def test_the_process_ends_with_its_worker(live: LivePipeline, tmp_path: Path) -> None:
    process = prepare_harm(live, tmp_path, "while True: pass", 60)
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(process.run, 60)
        wait_for(lambda: read_progress(tmp_path / "r").startswith("the candidate"), "it runs", 30)

        assert process._process is not None and process._process.stdin is not None
        process._process.stdin.close()

        assert "exit code 1" in ended.result()["reason"]


def digest_files(root: Path) -> dict[str, str]:
    """Return the digests of all files but the shared memory of a log."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def test_a_bundle_with_faults_and_blocks_that_are_not_allowed_are_reported(
    live: LivePipeline, tmp_path: Path
) -> None:
    prepare(live, tmp_path / "r", make_bundle("p", make_agent("harm", "harm")))

    with pytest.raises(BundleInvalid, match=r"the candidate has faults: .*own_blocks"):
        rehearse(tmp_path / "r")


def test_a_flood_of_messages_ends_the_rehearsal(
    live: LivePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MAX_NOTED_BYTES", 500)
    prepare(live, tmp_path / "r", BUNDLE)

    with pytest.raises(runner.Flooded, match="look for a loop"):
        rehearse(tmp_path / "r")


@pytest.mark.slow
def test_the_built_in_embedder_runs_within_the_limits(tmp_path: Path) -> None:
    keeping = make_agent(
        "keeping",
        "memory_entry_write",
        {"memory_id": "instances/p/memories", "memory": "facts"},
        senders="dispatch_write",
    )
    bundle = make_bundle("p", WRITE, keeping)
    live = LivePipeline(tmp_path / "live", bundle)
    live.run(*[live.entry(f"/write customer {number} likes tea") for number in range(20)])
    prepare(live, tmp_path / "r", bundle, embedder="local")
    live.close()

    report = RehearsalProcess(tmp_path / "r").run(60)

    assert (report["status"], report["reason"]) == ("done", "") and report["equal"], report
