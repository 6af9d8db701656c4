"""Results of a cascade's steps in other stores, kept for a repeat of its idempotency key.

The row of the key has the results of the first store only. Each further step keeps its own results
in its own store, under the key with a suffix.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from memrelay.blocks.contract import Transient
from memrelay.memory.sqlite.inbox import Done, Inbox
from memrelay.memory.sqlite.store import Store
from memrelay.worker.run.inputs import STEP_MARK, Input
from memrelay.worker.run.outcome import Outcome, new_outcome

# How long a repeat waits before it looks again for the end of the first cascade.
PAUSE_S = 0.2


def keep_step_results(inbox: Inbox, work: Input, outcome: Outcome, now_ms: int) -> None:
    """Keep the results of a step, in the transaction with its effects."""
    if outcome.results:
        number = sum(1 for _ in _kept_outputs(inbox, work, work.step_of))
        done = Done(work.plan.hash, outcome.to_outputs(0))
        inbox.add_produced(_key(work, work.step_of, number), done, now_ms)


def find_step_results(work: Input, first_id: str, stores: Sequence[Store]) -> list[bytes]:
    """Return the results of the steps of the input `first_id`, in the order of the steps.

    `work` repeats its idempotency key. Raises Transient while a step has not ended.
    """
    if any(store.pending.has_cascade(work.plan.uid, first_id) for store in stores):
        raise Transient("the first message with this id still runs", PAUSE_S, counts=False)
    steps = []
    for store in stores:
        for outputs in _kept_outputs(store.inbox, work, work.producer_id):
            step = new_outcome(work)
            step.take_outputs(outputs, [], work.hop)
            steps.append(step)
    steps.sort(key=lambda step: _place(step.publish_id))
    return [step.messages[number][1] for step in steps for number in step.results]


def _kept_outputs(inbox: Inbox, work: Input, producer_id: str) -> Iterator[bytes]:
    for number in count():
        done = inbox.produced(_key(work, producer_id, number))
        if done is None:
            return
        yield done.outputs


def _key(work: Input, producer_id: str, number: int) -> str:
    return f"{work.plan.uid}/{producer_id}{STEP_MARK}{number}"


def _place(ident: str) -> tuple[int, list[list[int]]]:
    """Return the place of a step in its cascade: its depth, then its path.

    The id of a step is `<first id>.<messages>+<steps>`, and so on for its own steps.
    """
    path = [[int(number) for number in part.split("+")] for part in ident.split(".")[1:]]
    return len(path), path
