"""Runs inputs in batches until all of them have an outcome."""

import time
from collections.abc import Callable, Sequence

from memrelay.memory.engine.stores import OpenStores
from memrelay.worker.run.batch import Batch, BatchResult
from memrelay.worker.run.inputs import Work


def run_batches(
    make_batch: Callable[[Sequence[Work]], Batch], stores: OpenStores, work: Sequence[Work]
) -> BatchResult:
    """Run inputs in their order, and return the results of all batches as one.

    Calls that need a vector run at the end, when it is there. Raises what `Batch.run` does.
    """
    whole = BatchResult()
    while work:
        result = make_batch(work).run(stores)
        _add(whole, result)
        work = result.left
        if not work and whole.awaiting:
            waiting, pause_s = whole.awaiting.pop(0)
            time.sleep(pause_s)
            work = [waiting]
    return whole


def _add(whole: BatchResult, result: BatchResult) -> None:
    whole.outcomes += result.outcomes
    whole.delayed += result.delayed
    whole.awaiting += result.awaiting
    whole.marks |= result.marks
    whole.changes |= result.changes
    whole.embedded |= result.embedded
    whole.imported |= result.imported
    whole.erased |= result.erased
