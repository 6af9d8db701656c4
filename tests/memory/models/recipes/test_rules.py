"""Rule engines: definitions, versions, operators, and which recipes they add."""

from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import InvalidInput, NameTaken, RecordNotFound, VersionConflict
from memrelay.memory.models.recipes.rules import OPERATORS
from tests.memory.builders import perform


def rule(*when: tuple[Any, ...], add: str = "deploys", **more: Any) -> dict[str, Any]:
    names = ("field", "operator", "value")
    conditions = [dict(zip(names, one, strict=False)) for one in when]
    return {"when": conditions, "then": {"add_memories": [add]}} | more


def create(tx: Store, *rules: Any, **more: Any) -> Any:
    return perform(tx, "rules.create", **{"id": "main", "name": "Main", "rules": rules} | more)


def evaluate(tx: Store, **given: Any) -> Any:
    return perform(tx, "rules.evaluate", **{"scope_variables": {}} | given)


def faults_of(tx: Store, operation: str, /, **given: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        perform(tx, operation, **given)
    return [(fault.path, fault.code) for fault in refused.value.faults]


def test_an_engine_is_returned_as_it_was_created(tx: Store) -> None:
    made = create(tx, rule(("input.text", "contains", "deploy"), priority=2), description="d")

    assert (made.id, made.name, made.description, made.enabled) == ("main", "Main", "d", True)
    assert (made.rules[0].id, made.rules[0].priority) == ("rule-1", 2)
    assert perform(tx, "rules.get", id="main") == made
    assert perform(tx, "rules.list").items == (made,)


def test_missing_ids_are_generated_and_given_ones_stay(tx: Store) -> None:
    made = create(tx, rule(id="rule-2"), rule(), rule(), id=None)

    assert len(made.id) == 36
    assert [one.id for one in made.rules] == ["rule-2", "rule-3", "rule-4"]


def test_an_id_is_taken_once(tx: Store) -> None:
    create(tx)

    with pytest.raises(NameTaken, match="has the id 'main'"):
        create(tx)


def test_an_update_merges_fields_and_replaces_the_rules(tx: Store) -> None:
    made = create(tx, rule(id="a"), rule(id="b"), description="d")

    changed = perform(tx, "rules.update", id="main", rules=[rule(id="c")], enabled=False)

    assert (changed.name, changed.description, changed.enabled) == ("Main", "d", False)
    assert [one.id for one in changed.rules] == ["c"]
    assert changed.version != made.version


def test_a_change_needs_the_expected_version(tx: Store) -> None:
    version = create(tx).version
    perform(tx, "rules.update", id="main", name="New", if_version=[version])

    for name, given in (("rules.update", {"name": "Newer"}), ("rules.delete", {})):
        with pytest.raises(VersionConflict):
            perform(tx, name, id="main", if_version=[version], **given)
    assert perform(tx, "rules.get", id="main").name == "New"


def test_a_deleted_engine_is_gone_and_its_id_is_free(tx: Store) -> None:
    create(tx)
    perform(tx, "rules.delete", id="main")

    for name in ("rules.get", "rules.update", "rules.delete"):
        with pytest.raises(RecordNotFound, match=r"rules\.list"):
            perform(tx, name, id="main")
    assert create(tx).id == "main"


def test_all_faults_of_an_engine_come_at_once_and_nothing_is_stored(tx: Store) -> None:
    found = faults_of(
        tx,
        "rules.create",
        id="../x",
        name="",
        description=1,
        enabled="yes",
        rules=[
            rule(("scope.taks.task_id", "eq", "T1"), ("input.text", "equals", "x")),
            rule(("addVar.A", "in", "x"), ("input.text", "regex", "a(b"), id="a", priority="1"),
            {"id": "a", "when": {}, "than": {}},
            rule(("input.text", "gt", True), ("input.text", "exists", True), ("input.text", "eq")),
            {"when": [{}], "then": {"add_memories": []}},
            7,
        ],
    )

    assert found == [
        ("/id", "bad_id"),
        ("/name", "required"),
        ("/description", "bad_type"),
        ("/enabled", "bad_type"),
        ("/rules/0/when/0/field", "bad_field"),
        ("/rules/0/when/1/operator", "bad_enum"),
        ("/rules/1/priority", "bad_type"),
        ("/rules/1/when/0/value", "bad_param"),
        ("/rules/1/when/0/field", "bad_field"),
        ("/rules/1/when/1/value", "bad_param"),
        ("/rules/2/than", "unknown_param"),
        ("/rules/2/when", "bad_type"),
        ("/rules/2/then", "required"),
        ("/rules/2/id", "duplicate_id"),
        ("/rules/3/when/0/value", "bad_param"),
        ("/rules/3/when/1/value", "bad_param"),
        ("/rules/3/when/2/value", "missing_param"),
        ("/rules/4/when/0/operator", "required"),
        ("/rules/4/when/0/field", "required"),
        ("/rules/4/then/add_memories", "required"),
        ("/rules/5", "bad_type"),
    ]
    assert perform(tx, "rules.list").items == ()


def test_an_update_with_faults_changes_nothing(tx: Store) -> None:
    made = create(tx, rule())

    assert faults_of(tx, "rules.update", id="main", name=3, rules=[{}]) == [
        ("/name", "bad_type"),
        ("/rules/0/then", "required"),
    ]
    assert perform(tx, "rules.get", id="main") == made


@pytest.mark.parametrize(
    ("pattern", "position"),
    [("a(b", 4), ("ab)c", 3), ("x[z-a]", 3), ("ü(?=a)", 2), ("ab**", 3), ("a[b", 2), (r"a\q", 2)],
)
def test_an_invalid_pattern_is_refused_with_its_position(
    tx: Store, pattern: str, position: int
) -> None:
    with pytest.raises(InvalidInput) as refused:
        create(tx, rule(("input.text", "regex", pattern)))

    (fault,) = refused.value.faults
    assert fault.path == "/rules/0/when/0/value"
    assert f"at position {position}:" in fault.message


@pytest.mark.parametrize("pattern", ["(a{100}){100}", "x" * 1001])
def test_a_pattern_that_is_too_large_is_refused(tx: Store, pattern: str) -> None:
    made = {"id": "main", "name": "Main", "rules": [rule(("input.text", "regex", pattern))]}

    assert faults_of(tx, "rules.create", **made) == [("/rules/0/when/0/value", "bad_param")]


def test_a_misspelled_name_gets_a_suggestion(tx: Store) -> None:
    with pytest.raises(InvalidInput) as refused:
        create(tx, rule(("scope.taks.task_id", "eqq", 1)))

    messages = [fault.message for fault in refused.value.faults]
    assert messages == [
        'unknown operator "eqq" (did you mean "eq"?)',
        'invalid field "scope.taks.task_id": unknown scope "taks" (did you mean "task"?)',
    ]
    assert str(refused.value) == "the rule engine has 2 errors"


HOLDS: dict[str, list[tuple[Any, Any, bool]]] = {
    "exists": [("a", None, True), (False, None, True)],
    "not_exists": [("a", None, False)],
    "eq": [("a", "a", True), ("a", "A", False), (1, 1.0, True), (1, "1", False), (True, 1, False)],
    "neq": [("a", "a", False), ("a", "b", True), (1, "1", True)],
    "in": [("a", ["a", "b"], True), (1, ["1"], False), ("a", [], False)],
    "not_in": [("a", ["a"], False), (1, ["1"], True)],
    "contains": [("abc", "bc", True), ("abc", "B", False), ([1, "x"], "x", True), (12, "1", False)],
    "starts_with": [("abc", "ab", True), ("abc", "bc", False), (12, "1", False)],
    "ends_with": [("abc", "bc", True), ("abc", "ab", False), (["c"], "c", False)],
    "gt": [(2, 1, True), (1, 1, False), ("b", "a", True), ("2", 1, False)],
    "gte": [(1, 1, True), (0, 1, False)],
    "lt": [(0.5, 1, True), (1, 1, False), (True, 2, False)],
    "lte": [(1, 1, True), (2, 1, False), ("a", 1, False)],
    "regex": [("task-42", r"\d+$", True), ("task", r"^ask", False), (42, r"4", False)],
}


@pytest.mark.parametrize(
    ("operator", "given", "value", "holds"),
    [(name, *case) for name, cases in HOLDS.items() for case in cases],
)
def test_an_operator_compares_without_conversion(
    tx: Store, operator: str, given: Any, value: Any, holds: bool
) -> None:
    condition = ("addVar.x", operator) if value is None else ("addVar.x", operator, value)
    create(tx, rule(condition))

    found = evaluate(tx, additional_variables={"x": given})

    assert found.matched_memories == (("deploys",) if holds else ())
    assert found.variables_used == ("addVar.x",)


def test_every_operator_has_cases() -> None:
    assert set(HOLDS) == set(OPERATORS)


@pytest.mark.parametrize("variables", [{}, {"x": None}])
def test_a_missing_variable_only_passes_negations(tx: Store, variables: dict[str, Any]) -> None:
    values = {name: cases[0][1] for name, cases in HOLDS.items()}
    rules = [
        rule(("addVar.x", name, value) if value is not None else ("addVar.x", name), add=name)
        for name, value in values.items()
    ]
    create(tx, *rules)

    found = evaluate(tx, additional_variables=variables)

    assert set(found.matched_memories) == {"not_exists", "neq", "not_in"}
    assert found.variables_used == ()


def test_all_conditions_of_a_rule_must_hold(tx: Store) -> None:
    create(
        tx,
        rule(("scope.task.task_id", "eq", "T1"), ("input.text", "contains", "deploy")),
        rule(add="always"),
    )

    both = evaluate(tx, scope_variables={"task": {"task_id": "T1"}}, input="last deploy")
    one = evaluate(tx, scope_variables={"task": {"task_id": "T1"}}, input={"text": "other"})

    assert both.matched_memories == ("deploys", "always")
    assert both.variables_used == ("scope.task.task_id", "input.text")
    assert one.matched_memories == ("always",)


def test_higher_priorities_come_first_across_engines(tx: Store) -> None:
    create(tx, rule(add="low"), rule(add="high", priority=5), id="a")
    create(tx, rule(add="middle", priority=3), rule(add="high"), id="b")

    found = evaluate(tx)

    assert found.matched_memories == ("high", "middle", "low")
    assert [one.engine_id for one in found.engine_results] == ["a", "b"]
    assert [len(one.matched_rules) for one in found.engine_results] == [2, 2]


def test_a_disabled_engine_is_evaluated_only_by_its_name(tx: Store) -> None:
    create(tx, rule(add="on"), id="a")
    create(tx, rule(add="off"), id="b", enabled=False)

    assert evaluate(tx).matched_memories == ("on",)
    assert evaluate(tx, rule_engine_ids=["b"]).matched_memories == ("off",)
    assert evaluate(tx, rule_engine_ids=[]).matched_memories == ()


def test_all_faults_of_the_inputs_come_at_once(tx: Store) -> None:
    found = faults_of(
        tx,
        "rules.evaluate",
        scope_variables={"taks": {}, "task": {"id": 1, "task_id": []}, "user": "u"},
        additional_variables={"A b": 1},
        input={"text": 1, "words": []},
        rule_engine_ids=["nowhere", 3],
    )

    assert found == [
        ("/scope_variables/taks", "bad_enum"),
        ("/scope_variables/task/id", "bad_variable"),
        ("/scope_variables/task/task_id", "bad_type"),
        ("/scope_variables/user", "bad_type"),
        ("/additional_variables/A b", "bad_variable"),
        ("/input/words", "unknown_param"),
        ("/input/text", "bad_type"),
        ("/rule_engine_ids/0", "unknown_engine"),
        ("/rule_engine_ids/1", "bad_type"),
    ]


def test_missing_scope_variables_are_a_fault(tx: Store) -> None:
    assert faults_of(tx, "rules.evaluate", scope_variables=None) == [
        ("/scope_variables", "required")
    ]
