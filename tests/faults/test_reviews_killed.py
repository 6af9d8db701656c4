"""Row 1: kill -9 of the worker at every step of an approval."""

from tests.faults.conftest import RecordFigures
from tests.faults.killed_calls import FAULT, Case, effects, enter, kill_at_each_step
from tests.support.bundles import make_uid
from tests.support.system import TestSystem

CASE = Case(
    "reviews.approve",
    lambda n: {"source": f"s{n:02}"},
    "memories",
    "SELECT source, content, number FROM records ORDER BY source",
    lambda rounds: [(f"s{n:02}", f"tea {n}", 1) for n in range(rounds)],
    ("records.create", lambda n: {"content": f"tea {n}", "source": f"s{n:02}"}),
)
POLICY = {"name": "all", "match": {}, "action": "review"}


def test_an_approval_that_is_killed_at_every_step_writes_once(
    record_figures: RecordFigures,
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        enter(system, uid, "policies.set", {"policy": POLICY}, "policy")
        rounds = kill_at_each_step(system, uid, CASE)

        assert rounds > 4, system.steps
        assert effects(system, uid, CASE) == CASE.expect(rounds)
        decided = "SELECT count(*) FROM proposals WHERE decision = 'approved'"
        assert system.rows(uid, decided) == [(rounds,)]
        record_figures(
            1, f"{FAULT} at every step of {CASE.operation}", steps=rounds - 1, effects=rounds
        )
