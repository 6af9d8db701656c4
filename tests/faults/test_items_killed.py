"""Row 1: kill -9 of the worker at every step of a put, a rename and a share."""

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.killed_calls import FAULT, Case, effects, kill_at_each_step
from tests.support.bundles import make_uid
from tests.support.system import TestSystem

AGENT = {"agent": "a1", "store": "a1"}
ITEMS = (
    "SELECT key, number FROM records "
    "WHERE kind = 'store.item' AND coalesce(expires_at, 0) = 0 ORDER BY key"
)
GRANTS = "SELECT grantee, level FROM grants ORDER BY grantee"
CASES = [
    Case(
        "items.put",
        lambda n: AGENT | {"key": f"k{n:02}", "value": {"n": n}},
        "stores",
        ITEMS,
        lambda rounds: [(f"k{n:02}", 1) for n in range(rounds)],
    ),
    Case(
        "items.rename",
        lambda n: AGENT | {"key": f"k{n:02}", "to_store": "a1", "to_key": f"r{n:02}"},
        "stores",
        ITEMS,
        lambda rounds: [(f"r{n:02}", 2) for n in range(rounds)],
        ("items.put", lambda n: AGENT | {"key": f"k{n:02}", "value": n}),
        lambda row: row[0].startswith("r"),
    ),
    Case(
        "grants.set",
        lambda n: AGENT | {"grantee": f"g{n:02}", "level": "read"},
        "stores",
        GRANTS,
        lambda rounds: [(f"g{n:02}", "read") for n in range(rounds)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.operation for case in CASES])
def test_an_operation_that_is_killed_at_every_step_applies_once(
    case: Case, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        rounds = kill_at_each_step(system, uid, case)

        assert rounds > 4, system.steps
        assert effects(system, uid, case) == case.expect(rounds)
        record_figures(
            1, f"{FAULT} at every step of {case.operation}", steps=rounds - 1, effects=rounds
        )
