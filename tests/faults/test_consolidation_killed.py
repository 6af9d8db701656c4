"""Row 1: kill -9 of the worker at every step of a run of consolidation."""

from functools import partial

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import remaining_work
from tests.faults.killed_calls import FAULT, enter
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.worker import arm

# More entries than one slice compares, so that each run has a deferred call.
FILLERS, MAX_ROUNDS = 12, 30
PROPOSED = "SELECT op, json_extract(candidate, '$.content') FROM proposals ORDER BY 2"


def enter_entry(system: TestSystem, uid: str, text: str) -> None:
    given = {"memory": "facts", "mode": "create", "content": text}
    enter(system, uid, "entries.create", given, text)


def is_done(system: TestSystem, uid: str, rounds: int) -> bool:
    """Return whether no work is left and each round has its proposal."""
    return not remaining_work(system, uid) and len(system.rows(uid, PROPOSED)) >= rounds


@pytest.mark.slow
def test_a_run_that_is_killed_at_every_step_proposes_each_pair_once(
    record_figures: RecordFigures,
) -> None:
    uid, rounds, has_survived = make_uid(), 0, False
    tidy = make_agent("tidy", "consolidate", {"memory_id": STORE}, on="tidy", to="tidied")
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, tidy)])
        system.client.await_quiet(uid)
        system.workers[-1].stop()
        while not has_survived:
            worker = system.start_stepping_worker(armed=False, die_at=rounds + 1)
            for number in range(FILLERS):
                enter_entry(system, uid, f"Note {rounds} {number} is about {rounds * number}")
            for port in (80, 90):
                enter_entry(system, uid, f"The port of service{rounds} is {port}{rounds:02}")
                # A call waits for its vector, so the next input may run before it.
                system.client.await_quiet(uid)
            arm(worker)
            fields = {"swarm": "tidy", "data": make_envelope("go")}
            system.client.redis.xadd(input_of(uid), fields)
            rounds += 1
            has_survived = worker.lives_until(partial(is_done, system, uid, rounds))
            if not has_survived:
                last = system.start_stepping_worker(armed=False, die_at=10_000)
                last.lives_until(partial(is_done, system, uid, rounds))
            system.workers[-1].kill()
            assert rounds < MAX_ROUNDS, system.steps

        assert rounds > 4, system.steps
        proposed = system.rows(uid, PROPOSED)
        assert len(proposed) == len(set(proposed)) == rounds
        ports = {f"The port of service{n} is 90{n:02}" for n in range(rounds)}
        assert {text for _, text in proposed} == ports
        record_figures(
            1, f"{FAULT} at every step of consolidation", steps=rounds - 1, effects=rounds
        )
