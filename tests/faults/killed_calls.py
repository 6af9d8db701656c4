"""Calls of operations that are repeated after kill -9 of the worker at each of its steps."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson

from tests.faults.invariants import remaining_work
from tests.support.bundles import make_bundle
from tests.support.client import input_of
from tests.support.system import TestSystem
from tests.support.worker import arm

FAULT = "kill -9 of the worker"
MAX_ROUNDS = 12


class Case(NamedTuple):
    """An operation, its input for the number of a round, and its effect after some rounds.

    `first` is the name and the input of a call that prepares each round, before the first kill.
    `is_effect` excludes the rows of these calls.
    """

    operation: str
    make_input: Callable[[int], dict[str, Any]]
    home: str
    select: str
    expect: Callable[[int], list[tuple[Any, ...]]]
    first: tuple[str, Callable[[int], dict[str, Any]]] | None = None
    is_effect: Callable[[tuple[Any, ...]], bool] = bool


def enter(system: TestSystem, uid: str, operation: str, given: dict[str, Any], ident: str) -> None:
    """Add a call to the input of the pipeline, under an idempotency key."""
    fields = {"op": operation, "data": orjson.dumps(given), "id": ident, "actor": operation}
    system.client.redis.xadd(input_of(uid), fields)


def effects(system: TestSystem, uid: str, case: Case) -> list[tuple[Any, ...]]:
    """Return the rows that the operation changed."""
    if not system.store_file(uid, case.home).exists():
        return []
    return [row for row in system.rows(uid, case.select, case.home) if case.is_effect(row)]


def kill_at_each_step(system: TestSystem, uid: str, case: Case) -> int:
    """Send one call in each round, twice under the same key, and kill the worker one step later
    than in the round before, until it survives. Return the number of rounds.
    """
    system.start_worker(bundles=[make_bundle(uid)])
    if case.first is not None:
        for number in range(MAX_ROUNDS):
            enter(system, uid, case.first[0], case.first[1](number), f"first{number}")
    system.client.await_quiet(uid)
    system.workers[-1].stop()
    rounds = 0
    while True:
        worker = system.start_stepping_worker(armed=False, die_at=rounds + 1)
        arm(worker)
        for _ in range(2):
            enter(system, uid, case.operation, case.make_input(rounds), f"round{rounds}")
        rounds += 1
        done = partial(_is_done, system, uid, case, rounds)
        if worker.lives_until(done):
            return rounds
        system.start_stepping_worker(armed=False, die_at=1000).lives_until(done)
        system.workers[-1].kill()
        assert rounds < MAX_ROUNDS, system.steps


def _is_done(system: TestSystem, uid: str, case: Case, rounds: int) -> bool:
    return not remaining_work(system, uid) and len(effects(system, uid, case)) >= rounds
