"""Results of a cascade's steps in other stores, kept for a repeat of its idempotency key.

The row of the key has the results of the first store only. Each further step keeps its own results
in its own store, under the key with a suffix.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import count

from memrelay.blocks.contract import Transient
from memrelay.memory.engine.idempotency import ProducerKey
from memrelay.memory.engine.inbox import Inbox
from memrelay.memory.engine.store import Store
from memrelay.memory.records.ids import input_time_ms
from memrelay.worker.run.inputs import STEP_MARK, Input
from memrelay.worker.run.outcome import Outcome, new_outcome

# How long a repeat waits before it looks again for the end of the first cascade, and in total.
PAUSE_S, LONGEST_WAIT_S = 0.2, 60.0


def keep_step_results(inbox: Inbox, work: Input, outcome: Outcome, now_ms: int) -> None:
    """Keep the results of a step, in the transaction with its effects."""
    if outcome.results:
        number = sum(1 for _ in _kept_answers(inbox, work, work.step_of))
        inbox.keys.add(_key(work, work.step_of, number), outcome.to_answer(), now_ms)


def find_step_results(work: Input, first_id: str, stores: Sequence[Store]) -> list[bytes]:
    """Return the results of the steps of the input `first_id`, in the order of the steps.

    `work` repeats its idempotency key. Raises Transient while a step has not ended. A repeat that
    is older than LONGEST_WAIT_S gets the results that there are.
    """
    age_s = time.time() - input_time_ms(work.id) / 1000
    is_running = any(store.pending.has_cascade(work.plan.uid, first_id) for store in stores)
    if is_running and age_s < LONGEST_WAIT_S:
        raise Transient("the first message with this id still runs", PAUSE_S, counts=False)
    steps = []
    for store in stores:
        for answer in _kept_answers(store.inbox, work, work.producer_id):
            step = new_outcome(work)
            step.take_answer(answer)
            steps.append(step)
    steps.sort(key=lambda step: _place(step.publish_id))
    return [step.messages[number][1] for step in steps for number in step.results]


def _kept_answers(inbox: Inbox, work: Input, producer_id: str) -> Iterator[bytes]:
    for number in count():
        answer = inbox.keys.find(_key(work, producer_id, number).digest)
        if answer is None:
            return
        yield answer


def _key(work: Input, producer_id: str, number: int) -> ProducerKey:
    return ProducerKey(work.plan.uid, f"{producer_id}{STEP_MARK}{number}", is_call=False)


def _place(ident: str) -> tuple[int, list[list[int]]]:
    """Return the place of a step in its cascade: its depth, then its path.

    The id of a step is `<first id>.<messages>+<steps>`, and so on for its own steps.
    """
    path = [[int(number) for number in part.split("+")] for part in ident.split(".")[1:]]
    return len(path), path
