"""Procedures: versions by name, conditions, counters, pages and deletions."""

from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import KeyTaken, RecordNotFound, Refused, VersionConflict
from tests.memory.builders import NOW, perform


def save(tx: Store, name: str = "weather", **given: Any) -> Any:
    whole = {"procedure_type": "tool_sequence", "procedure_content": [{"tool": "get"}]} | given
    return perform(tx, "procedures.save", name=name, **whole)


def matched(tx: Store, goal: str, **given: Any) -> str | None:
    found = perform(tx, "procedures.match", goal=goal, **given).procedure
    return None if found is None else str(found.name)


def listed(tx: Store, **given: Any) -> list[str]:
    page = perform(tx, "procedures.list", **given)
    return [one.name for one in page.items]


def test_a_name_has_one_record_per_agent(tx: Store) -> None:
    first, second = save(tx, description="ask"), save(tx, description="look", procedure_content=1)
    other = save(tx, agent_id="a1")

    assert [one.action for one in (first, second, other)] == ["created", "updated", "created"]
    assert first.procedure.id == second.procedure.id != other.procedure.id
    assert (second.procedure.description, second.procedure.procedure_content) == ("look", 1)
    assert perform(tx, "records.history", guid=first.procedure.id).total == 2


@pytest.mark.parametrize(
    ("conditions", "goal", "context", "matches"),
    [
        ({"goal_contains": "Weather"}, "the WEATHER here", {}, True),
        ({"goal_contains": ["rain", "weather"]}, "weather", {}, True),
        ({"goal_contains": ["rain"]}, "weather", {}, False),
        ({"goal_contains": [""]}, "weather", {}, False),
        ({"goal_contains": []}, "weather", {}, False),
        ({"context_has": ["city", "day"]}, "x", {"city": 1, "day": None}, True),
        ({"context_has": ["city", "day"]}, "x", {"city": 1}, False),
        ({"context_has": "city"}, "x", {"city": 1}, True),
        ({"context_has": []}, "x", {}, False),
        ({"goal_contains": "w", "context_has": "city"}, "w", {}, False),
        ({"goal_contains": "w", "context_has": "city"}, "w", {"city": 1}, True),
        ({}, "weather", {}, False),
        ({"goal_contains": "weather", "moon": "full"}, "weather", {}, False),
        ({"moon": "full"}, "weather", {"moon": "full"}, False),
        ({"goal_contains": 5}, "5", {}, False),
    ],
)
def test_conditions_decide(
    tx: Store, conditions: dict[str, Any], goal: str, context: dict[str, Any], matches: bool
) -> None:
    save(tx, trigger_conditions=conditions)

    assert (matched(tx, goal, context=context) is not None) is matches


def test_the_most_successful_match_wins(tx: Store) -> None:
    weather = {"goal_contains": "weather"}
    ids = [
        save(tx, name, trigger_conditions=weather, agent_id=agent).procedure.id
        for name, agent in (("a", "a1"), ("b", "a1"), ("c", "a2"))
    ]
    for guid, uses in zip(ids, (1, 2, 3), strict=True):
        for _ in range(uses):
            perform(tx, "procedures.use", id=guid, success=True)

    assert (matched(tx, "weather"), matched(tx, "weather", agent_id="a1")) == ("c", "b")
    perform(tx, "procedures.retire", id=ids[2])
    assert matched(tx, "weather") == "b"


def test_uses_are_counted_without_history(tx: Store) -> None:
    guid = save(tx).procedure.id
    unused = perform(tx, "procedures.get", id=guid)
    for success, took in ((True, 10), (True, None), (False, 20)):
        given = {} if took is None else {"duration_ms": took}
        used = perform(tx, "procedures.use", id=guid, success=success, now_ms=NOW + 7, **given)

    assert (unused.success_rate, unused.avg_duration_ms) == (0.5, None)
    assert (used.times_used, used.times_succeeded, used.times_failed) == (3, 2, 1)
    assert (used.success_rate, used.avg_duration_ms) == (pytest.approx(2 / 3), 15)
    assert used.last_used_at == format_time(NOW + 7)
    assert perform(tx, "records.history", guid=guid).total == 1


def test_a_retired_procedure_is_listed_and_a_save_revives_it(tx: Store) -> None:
    guid = save(tx).procedure.id
    for _ in range(2):
        retired = perform(tx, "procedures.retire", id=guid)

    assert not retired.is_active and listed(tx) == ["weather"]
    assert listed(tx, active_only=True) == []
    assert not perform(tx, "procedures.get", id=guid).is_active
    with pytest.raises(RecordNotFound, match="is in use"):
        perform(tx, "procedures.get", id="weather")
    assert perform(tx, "records.history", guid=guid).total == 2
    assert save(tx).procedure.is_active


def test_pages_have_the_newest_or_the_most_used_first(tx: Store) -> None:
    ids = [save(tx, name).procedure.id for name in "abc"]
    save(tx, "d", agent_id="a1", now_ms=NOW + 1)
    perform(tx, "procedures.use", id=ids[0], success=False)

    assert listed(tx) == ["d", "c", "b", "a"]
    assert listed(tx, order="uses") == ["a", "d", "c", "b"]
    assert listed(tx, agent_id="global", limit=2, offset=1) == ["b", "a"]
    assert perform(tx, "procedures.list", agent_id="global", limit=1).total == 3


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"procedure_type": "code_snipet"}, "did you mean 'code_snippet'"),
        ({"source": "human"}, "known|did you mean 'human_taught'"),
        ({"name": ""}, "at least 1 character"),
        ({"procedure_content": "x" * 70_000}, "65536 bytes"),
        ({"trigger_conditions": {"a": 2**63}}, "64 bits"),
    ],
)
def test_invalid_input_changes_nothing(tx: Store, given: dict[str, Any], rule: str) -> None:
    with pytest.raises((Refused, ValidationError), match=rule):
        save(tx, **given)

    assert listed(tx) == []


def test_versions_deletions_and_restorations(tx: Store) -> None:
    old = save(tx).procedure
    save(tx, description="new")

    with pytest.raises(VersionConflict):
        save(tx, if_version=[old.version])
    with pytest.raises(VersionConflict):
        perform(tx, "procedures.retire", id=old.id, if_version=[old.version])
    assert perform(tx, "procedures.delete_many", ids=[old.id, "nope"]).deleted == 1
    with pytest.raises(RecordNotFound):
        perform(tx, "procedures.use", id=old.id, success=True)
    save(tx)
    with pytest.raises(KeyTaken):
        perform(tx, "records.restore", guid=old.id)
