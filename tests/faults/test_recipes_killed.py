"""Row 1: kill -9 of the worker at every step of a change of recipes and of an appended event.

Each row that a case selects ends with the number of its changes in the feed.
"""

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.killed_calls import FAULT, Case, effects, kill_at_each_step
from tests.support.bundles import make_uid
from tests.support.system import TestSystem

CHANGES = "(SELECT count(*) FROM changes AS c WHERE c.subject = r.guid AND c.type = 'record.{}')"
RECIPES = "SELECT key, {} FROM records AS r WHERE kind = 'recipe.definition' ORDER BY key"
DELETED = (
    f"SELECT key, {CHANGES.format('deleted')} FROM versions AS r "
    "WHERE kind = 'recipe.definition' AND what = 'delete' ORDER BY key"
)
EVENTS = (
    "SELECT stream, sequence, (SELECT count(*) FROM changes AS c "
    "WHERE c.type = 'event.appended' AND instr(c.data, e.id)) FROM events AS e ORDER BY row"
)


def definition(number: int, label: str = "first") -> dict[str, object]:
    return {"id": f"r{number:02}", "label": label}


CREATE = "recipes.create", lambda n: {"definition": definition(n)}
CASES = [
    Case(
        *CREATE,
        "recipes",
        RECIPES.format(CHANGES.format("created")),
        lambda rounds: [(f"r{n:02}", 1) for n in range(rounds)],
    ),
    Case(
        "recipes.update",
        lambda n: {"id": f"r{n:02}", "definition": definition(n, "second")},
        "recipes",
        RECIPES.format(CHANGES.format("updated")),
        lambda rounds: [(f"r{n:02}", 1) for n in range(rounds)],
        CREATE,
        lambda row: row[1] > 0,
    ),
    Case(
        "recipes.delete",
        lambda n: {"id": f"r{n:02}"},
        "recipes",
        DELETED,
        lambda rounds: [(f"r{n:02}", 1) for n in range(rounds)],
        CREATE,
    ),
    Case(
        "events.append",
        lambda n: {
            "instance": "log",
            "events": [{"stream_id": "s", "event_type": "e", "payload": n}],
            "auto_create": True,
        },
        "recipes",
        EVENTS,
        lambda rounds: [("s", n + 1, 1) for n in range(rounds)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[case.operation for case in CASES])
def test_a_change_that_is_killed_at_every_step_applies_once(
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
