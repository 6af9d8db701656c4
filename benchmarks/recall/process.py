"""Trials in separate processes: of this checkout, of an earlier commit, and of the peers."""

import json
import os
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.comparison.run import QUIET
from benchmarks.recall.collection import Collection
from benchmarks.recall.systems import PEERS
from benchmarks.recall.trial import Trial, score

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("process_main.py")
PEERS_ENVIRONMENT = ROOT / "build/recall-peers"
FOLDERS = ("benchmarks", "memrelay")  # that a trial imports


class NotRun(Exception):
    """A system is missing. The message has the reason and the fix."""


class Failed(Exception):
    """A trial ended with an error, which it printed."""


@contextmanager
def checkout(commit: str | None) -> Iterator[Path]:
    """Yield a folder with the code of a commit, or this checkout. Raises Failed: if git does not
    know the commit."""
    if commit is None:
        yield ROOT
        return
    command = ["git", "-C", str(ROOT), "archive", commit, *FOLDERS]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise Failed(f"commit {commit}: {done.stderr.decode().strip()}")
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def run_trial(code: Path, collection: Collection, system: str) -> Trial:
    """Run a system of the code in a folder, and score its answers with the measures of this
    checkout.

    Raises NotRun: if the system is not installed or not in that code. Failed: if it fails.
    """
    done = subprocess.run(
        [find_python(system), "-P", PROGRAM],
        input=pickle.dumps((system, list(collection.corpora))),
        stdout=subprocess.PIPE,
        cwd=code,
        env=os.environ | QUIET,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{system}: failed with the error above")
    found = json.loads(done.stdout.splitlines()[-1])
    if found is None:
        raise NotRun(f"{system}: not run, because that commit has no such system")
    return Trial(**found | {"values": score(collection, found["values"]["hits"])})


def find_python(system: str) -> Path:
    """Return the interpreter that has the packages of a system. Raises NotRun: if there is none."""
    if system not in PEERS:
        return Path(sys.executable)
    if not has_peers():
        raise NotRun(f"{system}: not run, because it is not installed: make recall-peers")
    return PEERS_ENVIRONMENT / "bin/python"


def has_peers() -> bool:
    return (PEERS_ENVIRONMENT / ".installed").exists()
