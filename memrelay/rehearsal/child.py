"""The process that runs a rehearsal: `python -m memrelay.rehearsal.child FOLDER`.

It has the lowest priority, limits, no address of a bus and no secrets, and can open no
socket and start no program.
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import orjson

from memrelay.blocks.sources import all_outside_sources, use_folders
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import MemoryFault
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.difference import compare, leave_out_unrehearsed
from memrelay.rehearsal.questions import ask_sides, check_questions
from memrelay.rehearsal.report import ReportBuilder, compare_verdicts
from memrelay.rehearsal.runner import DatedPlan, Flooded, Side
from memrelay.rehearsal.sandbox import enter_sandbox
from memrelay.rehearsal.setup import (
    CANDIDATE,
    REPORT,
    SIDES,
    THEN,
    Setup,
    read_inputs,
    read_results,
    read_setup,
)
from memrelay.worker.without_bus.vectors import Vectors

# Bytes of a file that the process writes: a store, its log, or the report.
MAX_FILE_BYTES = 4 << 30
# Bytes of the answer to a golden question.
ANSWER_BYTES = 16 << 20
# The file with the side that runs.
PROGRESS = "progress"


class BundleInvalid(Exception):
    """A bundle cannot run in the rehearsal. The text has its faults."""


def rehearse(folder: Path) -> dict[str, Any]:
    """Run both sides in a folder and return the report.

    Raises Flooded, MemoryFault and BundleInvalid.
    """
    setup, inputs, results = read_setup(folder), read_inputs(folder), read_results(folder)
    plans = [
        _make_plan(setup, one.source, f"version {one.version}", one.from_ms)
        for one in setup.versions
    ]
    candidate = _make_plan(setup, setup.candidate, "the candidate")
    # No server is asked.
    model = "none" if setup.embedder == "endpoint" else setup.embedder
    with closing(Vectors(EmbeddingOptions(model))) as vectors:
        sides = []
        for name, served in ((THEN, plans), (CANDIDATE, [candidate])):
            (folder / PROGRESS).write_text(name)
            side = Side(folder / name, served, setup.limits, vectors, results)
            side.run(inputs)
            sides.append(side)
        then, after = sides
        builder = ReportBuilder(inputs)
        began = time.perf_counter()
        difference = leave_out_unrehearsed(compare(then, after), then, after)
        compared = builder.build(difference)
        took_s = time.perf_counter() - began
        tested = ask_sides(
            check_questions(setup.questions, setup.uid),
            (then, plans[-1].plan),
            (after, candidate.plan),
            setup.until_ms,
            ANSWER_BYTES,
        )
        then.close()
        after.close()
        left_out = then.unrehearsed | after.unrehearsed
        return {
            **describe(setup, "done", own_blocks=_list_own_blocks([*plans, candidate])),
            "inputs": {
                "rehearsed": len(inputs) - len(left_out),
                "not_rehearsed": len(left_out),
                "reasons": builder.name_inputs(left_out.items()),
            },
            "notes": [*setup.notes, *_notes(setup, plans, candidate.plan)],
            "vectors": {"made": vectors.made, "seconds": round(vectors.took_s, 3)},
            "seconds": {
                THEN: round(then.took_s, 3),
                CANDIDATE: round(after.took_s, 3),
                "compare": round(took_s, 3),
            },
            **compared,
            "policies": compare_verdicts(then.count_verdicts(), after.count_verdicts()),
            **tested,
        }


def describe(
    setup: Setup, status: str, reason: str = "", own_blocks: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the fields that every report has. `own_blocks` are the names of those that ran."""
    return {
        "id": setup.id,
        "pipeline": setup.uid,
        "status": status,
        "reason": reason,
        "created_at": format_time(setup.created_ms),
        "since": format_time(setup.since_ms),
        "until": format_time(setup.until_ms),
        "versions": [{"version": one.version, "hash": one.hash} for one in setup.versions],
        "own_blocks": own_blocks,
    }


def _make_plan(setup: Setup, source: bytes, name: str, from_ms: int = 0) -> DatedPlan:
    try:
        bundle = check(source, uid=setup.uid, timezone=setup.timezone).accepted()
    except BundleRefused as error:
        faults = "; ".join(fault.as_line() for fault in error.faults[:5])
        lacks_block = any(one.pointer.endswith("/wf_diagram_webhook") for one in error.faults)
        hint = " (blocks of `blocks.paths` run only with own_blocks)" if lacks_block else ""
        raise BundleInvalid(f"{name} has faults: {faults}{hint}") from error
    # A rate only delays messages, and the inputs of a week run in seconds.
    agents = [
        replace(one, flow=None) if one.flow is not None and one.flow.has_only_rate else one
        for one in bundle.agents
    ]
    bundle = replace(bundle, agents=tuple(agents))
    plan = Plan(bundle)
    has_steps = len(plan.stores) > 1 or any(
        one.flow is not None or one.block.executor is not None for one in bundle.agents
    )
    blocks = frozenset(one.block.name for one in bundle.agents)
    return DatedPlan(from_ms, plan, has_steps, blocks)


def _list_own_blocks(plans: Sequence[DatedPlan]) -> list[str]:
    """Return the names of the blocks of `blocks.paths` that the plans use."""
    own = {source.name for source in all_outside_sources() if source.file is not None}
    return sorted(own & {name for one in plans for name in one.blocks})


def _notes(setup: Setup, plans: Sequence[DatedPlan], candidate: Plan) -> list[str]:
    timers = {timer.agent.alias for timer in candidate.timers}
    timers -= {timer.agent.alias for one in plans for timer in one.plan.timers}
    notes = [f"the timer of {alias} is new and was not rehearsed" for alias in sorted(timers)]
    if setup.embedder == "endpoint":
        notes.append("the embedder is an endpoint, which was not asked: stores matched words only")
    return notes


def _end_with_worker() -> None:
    """End when the worker is gone, which holds the other end of stdin."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main(folder: Path) -> None:
    """Run the rehearsal of a folder, and write its report."""
    Thread(target=_end_with_worker, daemon=True).start()
    setup = read_setup(folder)
    enter_sandbox(setup.memory_bytes, setup.processor_s, MAX_FILE_BYTES, niceness=19)
    use_folders([Path(one) for one in setup.block_folders])
    try:
        report = rehearse(folder)
    except (Flooded, BundleInvalid, MemoryFault) as error:
        report = describe(setup, "failed", f"{read_progress(folder)}{error}")
    except MemoryError:
        most = setup.memory_bytes >> 20
        reason = f"{read_progress(folder)}it needs more than {most} MiB of memory"
        report = describe(setup, "failed", reason)
    (folder / REPORT).write_bytes(orjson.dumps(report))


def read_progress(folder: Path) -> str:
    """Return the beginning of a reason: which side ran."""
    path = folder / PROGRESS
    side = path.read_text() if path.exists() else ""
    names = dict(zip(SIDES, ("the bundles of the time: ", "the candidate: "), strict=True))
    return names.get(side, "")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
