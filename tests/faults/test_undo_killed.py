"""Row 1: kill -9 of the worker at every step of an undo."""

from tests.faults.conftest import RecordFigures
from tests.faults.killed_calls import FAULT, Case, effects, kill_at_each_step
from tests.support.bundles import make_uid
from tests.support.system import TestSystem

# Each round undoes one record more than the round before.
CASE = Case(
    "records.undo",
    lambda n: {"source": "records.create", "label": "all", "limit": n + 1},
    "memories",
    "SELECT guid, count(*) FROM versions WHERE what = 'delete' GROUP BY guid",
    lambda rounds: [],
    ("records.create", lambda n: {"content": f"tea {n}"}),
)


def test_an_undo_that_is_killed_at_every_step_undoes_once(record_figures: RecordFigures) -> None:
    uid = make_uid()
    with TestSystem() as system:
        rounds = kill_at_each_step(system, uid, CASE)

        assert rounds > 4, system.steps
        deleted = effects(system, uid, CASE)
        assert [count for _, count in deleted] == [1] * rounds
        kept = {guid for (guid,) in system.rows(uid, "SELECT guid FROM records")}
        assert len(kept) + rounds == 12 and kept.isdisjoint(guid for guid, _ in deleted)
        record_figures(
            1, f"{FAULT} at every step of {CASE.operation}", steps=rounds - 1, effects=rounds
        )
