"""Row 1: kill -9 of the worker at every step of a put, a rename and a share."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import orjson
import pytest

from tests.faults.conftest import Tell
from tests.faults.promises import left
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.house import House
from tests.support.worker import arm

FAULT = "kill -9 of the worker"
AGENT = {"agent": "a1", "store": "a1"}
ITEMS = (
    "SELECT key, number FROM records "
    "WHERE kind = 'store.item' AND coalesce(expires_at, 0) = 0 ORDER BY key"
)
GRANTS = "SELECT grantee, level FROM grants ORDER BY grantee"


class Case(NamedTuple):
    """An operation, its input for the number of a round, and its effect after some rounds."""

    operation: str
    make_input: Callable[[int], dict[str, Any]]
    select: str
    expect: Callable[[int], list[tuple[Any, ...]]]
    # The input of a put that comes first, if there is one.
    make_first: Callable[[int], dict[str, Any]] | None = None


CASES = [
    Case(
        "items.put",
        lambda n: AGENT | {"key": f"k{n:02}", "value": {"n": n}},
        ITEMS,
        lambda rounds: [(f"k{n:02}", 1) for n in range(rounds)],
    ),
    Case(
        "items.rename",
        lambda n: AGENT | {"key": f"k{n:02}", "to_store": "a1", "to_key": f"r{n:02}"},
        ITEMS,
        lambda rounds: [(f"r{n:02}", 2) for n in range(rounds)],
        lambda n: AGENT | {"key": f"k{n:02}", "value": n},
    ),
    Case(
        "grants.set",
        lambda n: AGENT | {"grantee": f"g{n:02}", "level": "read"},
        GRANTS,
        lambda rounds: [(f"g{n:02}", "read") for n in range(rounds)],
    ),
]


def enter(house: House, uid: str, operation: str, given: dict[str, Any], ident: str) -> None:
    fields = {"op": operation, "data": orjson.dumps(given), "id": ident, "actor": "test"}
    house.client.redis.xadd(input_of(uid), fields)


def changed_rows(house: House, uid: str, case: Case) -> list[Any]:
    """Return the effects of the operation, without the items that were put before."""
    if not house.store_file(uid, "stores").exists():
        return []
    rows = house.rows(uid, case.select, "stores")
    return [row for row in rows if case.make_first is None or not str(row[0]).startswith("k")]


def is_done(house: House, uid: str, case: Case, rounds: int) -> bool:
    return not left(house, uid) and len(changed_rows(house, uid, case)) == rounds


def run_round(house: House, uid: str, case: Case, number: int) -> None:
    """Send one operation twice under its idempotency key."""
    for _ in range(2):
        enter(house, uid, case.operation, case.make_input(number), f"round{number}")


def put_first(house: House, uid: str, case: Case, rounds: int) -> None:
    """Put the items that the rounds change."""
    if case.make_first is not None:
        for number in range(rounds):
            enter(house, uid, "items.put", case.make_first(number), f"first{number}")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", CASES, ids=[case.operation for case in CASES])
def test_an_operation_that_is_killed_at_every_step_applies_once(case: Case, tell: Tell) -> None:
    uid, rounds, most = make_uid(), 0, 12
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid)])
        put_first(house, uid, case, most)
        house.client.await_quiet(uid)
        house.workers[-1].stop()
        while True:
            worker = house.start_stepping_worker(armed=False, die_at=rounds + 1)
            arm(worker)
            run_round(house, uid, case, rounds)
            rounds += 1
            done = partial(is_done, house, uid, case, rounds)
            if worker.lives_until(done):
                break
            house.start_stepping_worker(armed=False, die_at=1000).lives_until(done)
            house.workers[-1].kill()
            assert rounds < most, house.steps

        assert rounds > 4, house.steps
        assert changed_rows(house, uid, case) == case.expect(rounds)
        tell(1, f"{FAULT} at every step of {case.operation}", steps=rounds - 1, effects=rounds)
