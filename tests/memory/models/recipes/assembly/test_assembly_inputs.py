"""Requests for a context: all faults at once, warnings, and the variables of recipes and rules."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import InvalidInput
from memrelay.memory.models.recipes.recipes import PAGE
from tests.memory.builders import perform
from tests.memory.models.recipes.definitions import store_recipe


def validate(tx: Store, **given: Any) -> Any:
    return perform(tx, "assembly.validate", **{"scope_variables": {}} | given)


def places(faults: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in faults]


def variable(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name} | more


def test_a_valid_request_has_no_faults(tx: Store) -> None:
    store_recipe(tx, "deploys")

    found = validate(
        tx,
        scope_variables={"task": {"task_id": "T1"}},
        additional_variables={"phase": "planning"},
        input={"text": "last deploy"},
        explicit_memory=["deploys"],
        constraints={"max_tokens": 800, "max_sources": 5, "timeout_ms": 2000},
    )

    assert (found.valid, found.errors, found.warnings) == (True, (), ())


def test_all_faults_of_a_request_come_at_once(tx: Store) -> None:
    found = validate(
        tx,
        scope_variables=[],
        additional_variables=[],
        input=1,
        explicit_memory=["a", "", 2],
        rule_engine_ids="main",
        constraints={"max_tokens": 0, "max_sources": 1.5, "timeout_ms": 60_001, "tokens": 1},
        thread_id=7,
    )

    assert not found.valid
    assert places(found.errors) == [
        ("/scope_variables", "bad_type"),
        ("/additional_variables", "bad_type"),
        ("/input", "bad_type"),
        ("/explicit_memory/1", "required"),
        ("/explicit_memory/2", "bad_type"),
        ("/rule_engine_ids", "bad_type"),
        ("/constraints/tokens", "unknown_param"),
        ("/constraints/max_tokens", "out_of_range"),
        ("/constraints/max_sources", "bad_type"),
        ("/constraints/timeout_ms", "out_of_range"),
        ("/thread_id", "bad_type"),
    ]


def test_recipes_that_would_fail_are_warnings(tx: Store) -> None:
    no_default = variable("phase", required=True, default=None)
    wanted = [no_default, variable("size", required=True, default=0)]
    store_recipe(tx, "old", status="deprecated", additional_variables=wanted)
    rules = [{"then": {"add_memories": ["gone"]}}]
    perform(tx, "rules.create", name="Main", rules=rules)

    found = validate(tx, explicit_memory=["missing", "old"])

    assert found.valid
    assert places(found.warnings) == [
        ("/explicit_memory/0", "unknown_recipe"),
        ("/rule_engine_ids", "unknown_recipe"),
        ("/explicit_memory/1", "deprecated"),
        ("/additional_variables/phase", "missing_variable"),
    ]
    given = validate(tx, explicit_memory=["old"], additional_variables={"phase": ""})
    assert places(given.warnings)[1:] == [("/explicit_memory/0", "deprecated")]


def test_required_variables_are_merged_over_recipes(tx: Store) -> None:
    first = [variable("a"), variable("b", required=True, default=1)]
    second = [variable("a", required=True), variable("c")]
    store_recipe(tx, "x", inputs_scope=["task", "user"], additional_variables=first)
    store_recipe(tx, "y", inputs_scope=["user", "org"], additional_variables=second)

    found = perform(tx, "assembly.required_variables", memory_ids=["x", "y"])

    assert found.scope_variables == {
        "task": ("task_id", "task_type"),
        "user": ("user_id",),
        "org": ("org_id",),
    }
    assert [(one.name, one.required) for one in found.additional_variables] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]


def test_unknown_recipes_have_no_required_variables(tx: Store) -> None:
    store_recipe(tx, "x")

    with pytest.raises(InvalidInput) as refused:
        perform(tx, "assembly.required_variables", memory_ids=["nowhere", "x", 3])

    assert places(refused.value.faults) == [
        ("/memory_ids/0", "unknown_recipe"),
        ("/memory_ids/2", "bad_type"),
    ]


def test_the_fields_of_rules_come_from_scopes_input_recipes_and_rules(tx: Store) -> None:
    store_recipe(tx, "x", additional_variables=[variable("phase")])
    store_recipe(tx, "y", status="deprecated", additional_variables=[variable("old")])
    when = [
        {"field": "addVar.phase", "operator": "exists"},
        {"field": "addVar.mood", "operator": "exists"},
    ]
    perform(tx, "rules.create", name="M", rules=[{"when": when, "then": {"add_memories": ["x"]}}])

    found = {one.name: one.source for one in perform(tx, "rules.variables").items}

    assert found["scope.task.task_type"] == "scope"
    assert {name: source for name, source in found.items() if source != "scope"} == {
        "input.text": "input",
        "addVar.phase": "recipe",
        "addVar.mood": "rule",
    }


def test_the_variables_of_many_recipes_are_all_listed(tx: Store) -> None:
    for number in range(PAGE + 1):
        store_recipe(tx, f"r{number}", additional_variables=[variable(f"v{number}")])

    names = [one.name for one in perform(tx, "rules.variables").items if one.source == "recipe"]

    assert len(names) == PAGE + 1
