"""Assembled contexts: recipes of requests and rules, failures in the trace, limits and time."""

from collections.abc import Generator
from itertools import count
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import InvalidInput, ResultTooLarge
from memrelay.memory.models.recipes.assembly import (
    AssembledContext,
    AssemblyRequest,
    read_request,
    start_assembly,
)
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, make_guid, perform
from tests.memory.models.recipes.definitions import deliver, store_recipe


def assemble(tx: Store, *explicit: str, **given: Any) -> Any:
    given = {"scope_variables": {}, "explicit_memory": explicit} | given
    return perform(tx, "assembly.assemble", **given)


def store(tx: Store, ident: str, *texts: str, **contribution: Any) -> None:
    store_recipe(tx, ident, deliver(*texts), contribution=contribution)


def texts_of(found: Any) -> dict[str, list[str]]:
    return {name: [item.text for item in items] for name, items in found.context.items()}


def calls_of(found: Any) -> list[tuple[str, str, bool, int]]:
    return [(one.memory_id, one.reason, one.success, one.items) for one in found.trace.memory_calls]


def codes_of(found: Any) -> dict[str, str]:
    return {one.memory_id: one.error.code if one.error else "" for one in found.trace.memory_calls}


def drive(run: Generator[None, Store, AssembledContext], tx: Store) -> tuple[AssembledContext, int]:
    """Run an assembly to its end. Return its result and how often it paused."""
    pauses = 0
    try:
        next(run)
        while True:
            pauses += 1
            run.send(tx)
    except StopIteration as end:
        return end.value, pauses


def test_recipes_are_combined_by_section_and_weight(tx: Store) -> None:
    store(tx, "low", "a", "b", section="knowledge", priority="low")
    store(tx, "top", "c", section="knowledge", priority="critical")
    store(tx, "now", "d", section="state")

    found = assemble(tx, "low", "top", "now")

    assert texts_of(found) == {"state": ["d"], "knowledge": ["c", "a", "b"]}
    assert list(found.context) == ["state", "knowledge"]
    item = found.context["knowledge"][0]
    assert (item.id, item.memory_id, item.memory_label) == ("i0", "top", "Top")
    assert (item.priority, item.weight, item.tokens) == ("critical", 4, 1)
    assert calls_of(found) == [
        ("low", "explicit", True, 2),
        ("top", "explicit", True, 1),
        ("now", "explicit", True, 1),
    ]
    assert (found.meta.token_estimate, found.meta.total_items, found.meta.truncated) == (
        4,
        4,
        False,
    )
    assert found.text.endswith(
        "<knowledge>\n[state: Now] d\n[knowledge: Top] c\n[knowledge: Low] a\n"
        "[knowledge: Low] b\n</knowledge>"
    )


def test_without_recipes_the_context_is_empty(tx: Store) -> None:
    found = assemble(tx)

    assert (found.context, found.text, found.trace.memory_calls) == ({}, "", ())
    assert found.meta.total_items == 0


def test_equal_texts_of_recipes_stay_once(tx: Store) -> None:
    store(tx, "a", "same", "only a", "same")
    store(tx, "b", "same", "only b", priority="high", section="state")

    found = assemble(tx, "a", "b")

    assert texts_of(found) == {"state": ["same", "only b"], "knowledge": ["only a"]}


def test_the_budget_and_the_number_of_items_are_limits(tx: Store) -> None:
    store(tx, "a", "x" * 8, "y" * 8, "z" * 8, max_items=2, priority="low")
    store(tx, "b", "w" * 40, priority="high")

    whole = assemble(tx, "a", "b")
    cut = assemble(tx, "a", "b", constraints={"max_tokens": 12})
    nothing = assemble(tx, "a", "b", constraints={"max_tokens": 1})

    assert texts_of(whole) == {"knowledge": ["w" * 40, "x" * 8, "y" * 8]}
    assert texts_of(cut) == {"knowledge": ["w" * 40, "x" * 8]}
    assert (whole.meta.truncated, cut.meta.truncated) == (False, True)
    assert (nothing.context, nothing.text, nothing.meta.truncated) == ({}, "", True)


def test_the_recipes_with_the_highest_weights_stay(tx: Store) -> None:
    for name, priority in (("a", "low"), ("b", "critical"), ("c", "high"), ("d", "high")):
        store(tx, name, name, priority=priority)

    found = assemble(tx, "a", "b", "c", "d", constraints={"max_sources": 2})

    assert texts_of(found) == {"knowledge": ["b", "c"]}
    assert [one.memory_id for one in found.trace.memory_calls] == ["b", "c"]
    assert found.meta.truncated


def test_rules_add_recipes_and_each_runs_once(tx: Store) -> None:
    store(tx, "a", "text a")
    store(tx, "b", "text b")
    when = [{"field": "input.text", "operator": "contains", "value": "deploy"}]
    rules = [{"id": "r1", "when": when, "then": {"add_memories": ["b", "a"]}}]
    perform(tx, "rules.create", id="main", name="Main", rules=rules)

    both = assemble(tx, "a", input={"text": "last deploy"})
    one = assemble(tx, "a", input="other")
    none = assemble(tx, input="last deploy", rule_engine_ids=[])

    assert [call[:2] for call in calls_of(both)] == [("a", "explicit"), ("b", "rule main/r1")]
    assert [rule.rule_id for rule in both.trace.rules_applied] == ["r1"]
    assert both.trace.variables_used == ("input.text",)
    assert [call[0] for call in calls_of(one)] == ["a"]
    assert none.trace.memory_calls == ()


def test_unknown_and_failed_recipes_are_in_the_trace_and_others_run(tx: Store) -> None:
    store(tx, "good", "text")
    store_recipe(tx, "bad", deliver(error="broken"))
    needs = [{"name": "phase", "required": True}]
    store_recipe(tx, "poor", deliver("x"), additional_variables=needs)

    found = assemble(tx, "nowhere", "bad", "poor", "good")

    assert [(name, success) for name, _, success, _ in calls_of(found)] == [
        ("nowhere", False),
        ("bad", False),
        ("poor", False),
        ("good", True),
    ]
    assert codes_of(found) | {"poor": ""} == {
        "nowhere": "unknown_recipe",
        "bad": "handler_failed",
        "poor": "",
        "good": "",
    }
    assert found.trace.missing_variables == ("phase",)
    assert texts_of(found) == {"knowledge": ["text"]}


def test_variables_and_the_question_reach_the_recipes(tx: Store) -> None:
    step = deliver("${phase} ${task_id} ${thread_id} ${query} ${nothing}")
    store_recipe(
        tx,
        "a",
        step,
        inputs_scope=["task", "thread"],
        additional_variables=[{"name": "phase"}, {"name": "nothing"}],
    )

    found = assemble(
        tx,
        "a",
        scope_variables={"task": {"task_id": "T1"}, "user": {"user_id": "U1"}},
        additional_variables={"phase": "planning", "unused": 1},
        input="last deploy",
        thread_id="H1",
    )

    assert texts_of(found) == {"knowledge": ["planning T1 H1 last deploy "]}
    assert set(found.trace.variables_used) >= {"phase", "task_id", "thread_id", "query"}
    assert found.trace.missing_variables == ("nothing",)


def test_a_recipe_that_ends_with_a_text_is_one_item(tx: Store) -> None:
    store_recipe(tx, "a", deliver("x", "y"), {"type": "format", "format": "numbered"})

    found = assemble(tx, "a")

    assert texts_of(found) == {"knowledge": ["1. x\n2. y"]}
    assert found.context["knowledge"][0].id == "a"


def test_groups_are_flattened_and_no_items_are_no_section(tx: Store) -> None:
    store_recipe(tx, "a", deliver("x", "y"), {"type": "group_by", "field": "text"})
    store_recipe(tx, "b", deliver())

    found = assemble(tx, "a", "b")

    assert texts_of(found) == {"knowledge": ["x", "y"]}
    assert calls_of(found)[1] == ("b", "explicit", True, 0)


def test_all_faults_of_the_input_are_refused_at_once(tx: Store) -> None:
    with pytest.raises(InvalidInput) as refused:
        assemble(tx, scope_variables={"taks": {}}, rule_engine_ids=["x"], constraints={"a": 1})

    assert [fault.path for fault in refused.value.faults] == [
        "/scope_variables/taks",
        "/rule_engine_ids/0",
        "/constraints/a",
    ]


def test_a_context_that_is_too_large_is_refused(tx: Store) -> None:
    store(tx, "a", "x" * 4000)

    with pytest.raises(ResultTooLarge, match=r"constraints\.max_tokens"):
        assemble(tx, "a", result_bytes=2000)


def test_recipes_later_than_the_timeout_are_in_the_trace(tx: Store) -> None:
    for name, priority in (("late", "low"), ("heavy", "critical"), ("later", "low")):
        store_recipe(tx, name, deliver(name), contribution={"priority": priority})
    given = AssemblyRequest(
        {}, explicit_memory=["late", "heavy", "later"], constraints={"timeout_ms": 1000}
    )
    seconds = count(0, 0.2)
    context = Context(NOW, "tester", PLENTY, make_guid)

    run = start_assembly(tx, read_request(tx, given), context, lambda: next(seconds))
    found, _ = drive(run, tx)

    assert codes_of(found) == {"late": "timeout", "heavy": "", "later": "timeout"}
    assert texts_of(found) == {"knowledge": ["heavy"]}
    assert found.meta.duration_ms > 1000


def test_an_assembly_pauses_between_steps(tx: Store) -> None:
    for name in ("a", "b"):
        store_recipe(tx, name, deliver(name), {"type": "summarize"}, {"type": "deduplicate"})
    given = AssemblyRequest({}, explicit_memory=["a", "b"])
    context = Context(NOW, "tester", PLENTY, make_guid)

    found, pauses = drive(start_assembly(tx, read_request(tx, given), context), tx)

    assert texts_of(found) == {"knowledge": ["a", "b"]}
    assert pauses >= 4
