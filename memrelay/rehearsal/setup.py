"""The files in the folder of a rehearsal.

- `setup`: the period, the bundles and the limits
- `inputs`: the inputs in the order in which they ran
- `results`: the results of their deferred calls
- `then/`: the stores as they were, for the bundles of the time; `candidate/`: the same stores
- `report.json`: the result, which the child process writes
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.memory.search.embedding.embedder import Model
from memrelay.worker.limits import WorkerLimits

SETUP, INPUTS, RESULTS, REPORT = "setup", "inputs", "results", "report.json"
THEN, CANDIDATE = SIDES = ("then", "candidate")
# Inputs of a rehearsal, at most.
MAX_INPUTS = 200_000
# Bytes of the results of their deferred calls, at most.
MAX_RESULT_BYTES = 64 << 20


class DeployedBundle(Struct, frozen=True):
    """A version of the pipeline that served from `from_ms` on, Unix ms. `source` is its JSON."""

    version: int
    from_ms: int
    hash: str
    source: bytes


class Setup(Struct, frozen=True):
    """A rehearsal. Times are Unix ms. `candidate` is the JSON of the bundle to try."""

    id: str
    uid: str
    created_ms: int
    since_ms: int
    until_ms: int
    versions: list[DeployedBundle]
    candidate: bytes
    # The time zone of a bundle that names none.
    timezone: str = DEFAULT_ZONE
    limits: WorkerLimits = msgspec.field(default_factory=WorkerLimits)
    embedder: Model = "none"
    # The folders of blocks that the bundles may use, none without `own_blocks`.
    block_folders: list[str] = []
    # Processor time and memory of the child process.
    processor_s: int = 600
    memory_bytes: int = 1 << 30
    # The text of a file of golden questions.
    questions: str = ""
    # Further lines of the report.
    notes: list[str] = []


def write_setup(
    folder: Path, setup: Setup, inputs: Sequence[KeptInput], results: Sequence[KeptInput]
) -> None:
    """Write the files that the child process reads."""
    (folder / SETUP).write_bytes(msgspec.msgpack.encode(setup))
    (folder / INPUTS).write_bytes(msgspec.msgpack.encode(inputs))
    (folder / RESULTS).write_bytes(msgspec.msgpack.encode(results))


def read_setup(folder: Path) -> Setup:
    """Return the setup in a folder."""
    return msgspec.msgpack.decode((folder / SETUP).read_bytes(), type=Setup)


def read_inputs(folder: Path) -> list[KeptInput]:
    """Return the inputs in a folder."""
    return msgspec.msgpack.decode((folder / INPUTS).read_bytes(), type=list[KeptInput])


def read_results(folder: Path) -> list[KeptInput]:
    """Return the results of deferred calls in a folder."""
    return msgspec.msgpack.decode((folder / RESULTS).read_bytes(), type=list[KeptInput])
