"""Checks of definitions: all errors at once, each with a pointer, a code and a suggestion."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import InvalidInput
from memrelay.memory.models.recipes.definition.check import (
    MAX_BYTES,
    MAX_KEYS,
    MAX_VARIABLES,
    check_definition,
    encode_definition,
)
from memrelay.memory.models.recipes.faults import MAX_FAULTS
from memrelay.memory.models.recipes.recipes import compile_recipe

CUSTOM = {"type": "custom"}
RANK = {"type": "rank"}
FIRST = "/retrieval/pipeline/0"


def define(*steps: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "a", "label": "A", "retrieval": {"pipeline": list(steps)}} | fields


def errors_of(definition: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in check_definition(definition).errors]


def warnings_of(definition: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.code) for fault in check_definition(definition).warnings]


def nested(levels: int) -> dict[str, Any]:
    step: dict[str, Any] = RANK
    for _ in range(levels - 1):
        step = {"type": "conditional", "condition": "true", "thenSteps": [step]}
    return step


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"label": "A"}, "/id", "required"),
    (define(label=""), "/label", "required"),
    (define({"alias": "x"}), f"{FIRST}/type", "required"),
    (define(id="../x"), "/id", "bad_id"),
    (define(id="a" * 65), "/id", "bad_id"),
    (define(version="1.0"), "/version", "bad_version"),
    (define(label=5), "/label", "bad_type"),
    (define(retrieval=[]), "/retrieval", "bad_type"),
    (define("rank"), FIRST, "bad_type"),
    (define(inputs_scope="task"), "/inputs_scope", "bad_type"),
    (define(status="draft"), "/status", "bad_enum"),
    (define(inputs_scope=["task", "team"]), "/inputs_scope/1", "bad_enum"),
    (define(contribution={"section": "facts"}), "/contribution/section", "bad_enum"),
    (define(contribution={"priority": "top"}), "/contribution/priority", "bad_enum"),
    (define(contribution={"format": "markdown"}), "/contribution/format", "bad_enum"),
    (define(contribution={"max_items": 0}), "/contribution/max_items", "out_of_range"),
    (define(contribution={"max_items": 1001}), "/contribution/max_items", "out_of_range"),
    (define(contribution={"max_items": True}), "/contribution/max_items", "bad_type"),
    (
        define(additional_variables=[{"name": "A-b"}]),
        "/additional_variables/0/name",
        "bad_variable",
    ),
    (
        define(additional_variables=[{"name": "a"}, {"name": "a"}]),
        "/additional_variables/1/name",
        "bad_variable",
    ),
    (
        define(additional_variables={"query": {}}),
        "/additional_variables/query/name",
        "bad_variable",
    ),
    (
        define(additional_variables=[{"name": "task_id"}]),
        "/additional_variables/0/name",
        "bad_variable",
    ),
    (define(*[RANK] * 65), "/retrieval/pipeline/64", "too_many_steps"),
    (define(nested(9)), FIRST + "/thenSteps/0" * 7 + "/thenSteps", "too_deep"),
    (define(description="x" * MAX_BYTES), "", "too_large"),
    (define({"type": "rnk"}), f"{FIRST}/type", "unknown_step"),
    (define({"type": "rank", "limit": 1}), f"{FIRST}/limit", "unknown_param"),
    (
        define({"type": "early_exit", "condition": "true", "source": "x"}),
        f"{FIRST}/source",
        "unknown_param",
    ),
    (define({"type": "group_by"}), f"{FIRST}/field", "missing_param"),
    (define({"type": "group_by", "field": ""}), f"{FIRST}/field", "missing_param"),
    (define({"type": "rank", "topK": "5"}), f"{FIRST}/topK", "bad_param"),
    (define({"type": "rank", "topK": 0}), f"{FIRST}/topK", "bad_param"),
    (define({"type": "rank", "strategy": "newest"}), f"{FIRST}/strategy", "bad_param"),
    (define({"type": "rank", "params": {"topK": "5"}}), f"{FIRST}/params/topK", "bad_param"),
    (define({"type": "rank", "onError": "stop"}), f"{FIRST}/onError", "bad_param"),
    (define({"type": "score", "weights": {"a": "x"}}), f"{FIRST}/weights/a", "bad_param"),
    (define({"type": "rank", "alias": "1"}), f"{FIRST}/alias", "bad_alias"),
    (define({"type": "rank", "alias": "results"}), f"{FIRST}/alias", "bad_alias"),
    (
        define(RANK, {"type": "format", "alias": "rank"}),
        "/retrieval/pipeline/1/alias",
        "duplicate_alias",
    ),
    (
        define({"type": "rank", "source": "later"}, {"type": "rank", "alias": "later"}),
        f"{FIRST}/source",
        "bad_source",
    ),
    (
        define({"type": "format"}, {"type": "rank", "source": "format"}),
        "/retrieval/pipeline/1/source",
        "bad_source",
    ),
    (
        define(RANK, {"type": "merge", "sources": ["rank", "x"]}),
        "/retrieval/pipeline/1/sources/1",
        "bad_source",
    ),
    (
        define({"type": "early_exit", "condition": "results.count >"}),
        f"{FIRST}/condition",
        "bad_condition",
    ),
    (define(CUSTOM | {"inlineCode": "return 1"}), f"{FIRST}/inlineCode", "bad_custom"),
    (define(CUSTOM | {"actionBlockPath": "x"}), f"{FIRST}/actionBlockPath", "bad_custom"),
    (define(CUSTOM | {"handler": "pck"}), f"{FIRST}/handler", "bad_custom"),
    (define({"type": "rank", "step": "format"}), f"{FIRST}/step", "conflicting_keys"),
    (define({"type": "rank", "top_k": 1, "topK": 2}), f"{FIRST}/topK", "conflicting_keys"),
]


@pytest.mark.parametrize(("definition", "path", "code"), FAULTS)
def test_each_fault_has_its_pointer_and_code(
    definition: dict[str, Any], path: str, code: str
) -> None:
    assert errors_of(definition)[-1] == (path, code)
    assert len(errors_of(definition)) == 1


def test_the_cases_cover_all_codes() -> None:
    assert len({code for _, _, code in FAULTS}) == 20


def test_a_definition_that_is_no_object_is_refused() -> None:
    assert errors_of([]) == [("", "bad_type")]
    assert errors_of({"id": {1, 2}}) == [("", "bad_type")]


def test_all_errors_come_at_once_with_suggestions() -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_recipe({"label": "x", "retrieval": {"pipeline": [{"type": "formt"}]}})

    assert str(caught.value) == "the definition has 2 errors"
    assert [tuple(fault) for fault in caught.value.faults] == [
        ("/id", "required", "id is missing"),
        (f"{FIRST}/type", "unknown_step", 'unknown step type "formt" (did you mean "format"?)'),
    ]
    assert caught.value.__notes__[0] == "/id: id is missing"


def test_one_error_is_singular() -> None:
    with pytest.raises(InvalidInput, match=r"^the definition has 1 error\b(?!s)"):
        compile_recipe({"id": "a"})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"type": "rank", "topk": 5}, 'rank has no parameter "topk" (did you mean "topK"?)'),
        ({"type": "group_by"}, "group_by needs the parameter field"),
        ({"type": "rank", "topK": "5"}, "topK must be a valid integer"),
        (
            {"type": "rank", "strategy": "recent"},
            "strategy must be 'score_desc', 'recency' or 'relevance' (did you mean \"recency\"?)",
        ),
        (
            {"type": "early_exit", "condition": "query ="},
            "the condition is invalid: invalid character at position 7",
        ),
    ],
)
def test_messages_name_the_rule(step: dict[str, Any], message: str) -> None:
    assert check_definition(define(step)).errors[0].message == message


def test_a_misspelled_type_causes_no_second_error() -> None:
    steps = [{"type": "rnk", "alias": "best"}, {"type": "format", "source": "best"}]

    assert errors_of(define(*steps)) == [(f"{FIRST}/type", "unknown_step")]


def test_errors_in_branches_have_the_submitted_pointer() -> None:
    step = {"step": "conditional", "params": {"condition": "true", "then_steps": [{"type": "x"}]}}

    assert errors_of(define(step)) == [(f"{FIRST}/params/then_steps/0/type", "unknown_step")]


def test_templates_pass_the_check() -> None:
    step = {"type": "rank", "topK": "${most}", "strategy": "${how}"}
    variables = {"most": {"required": True}, "how": {"default": "recency"}}
    compiled = compile_recipe(define(step, additional_variables=variables))

    assert compiled.steps[0].params is None
    assert compiled.steps[0].raw == {"topK": "${most}", "strategy": "${how}"}
    assert [one.name for one in compiled.variables] == ["most", "how"]
    assert compiled.definition["additional_variables"][1] == {"name": "how", "default": "recency"}


def test_an_unknown_key_stays_with_a_warning() -> None:
    definition = define(RANK, lable="x", createdAt="2026-01-01")

    assert warnings_of(definition) == [("/lable", "unknown_key")]
    assert compile_recipe(definition).definition["lable"] == "x"
    assert "createdAt" not in compile_recipe(definition).definition


def test_an_empty_pipeline_is_a_warning() -> None:
    assert warnings_of({"id": "a", "label": "A"}) == [("/retrieval/pipeline", "empty_pipeline")]


def test_unresolvable_names_are_warnings() -> None:
    steps = [
        {"type": "group_by", "field": "${wanted} ${context.a} ${task_id}"},
        {"type": "group_by", "field": "${group_by.a.0.text} ${query}"},
        {"type": "early_exit", "condition": "results.x.length > 0 || vars.y"},
    ]
    checked = check_definition(define(*steps))

    assert [(one.path, one.code) for one in checked.warnings] == [
        (f"{FIRST}/field", "unknown_variable"),
        (f"{FIRST}/field", "unknown_variable"),
        ("/retrieval/pipeline/2/condition", "unknown_alias"),
        ("/retrieval/pipeline/2/condition", "unknown_variable"),
    ]
    assert 'add "task" to inputs_scope' in checked.warnings[1].message
    assert not checked.errors


def test_all_spellings_are_stored_in_the_seeds_spelling() -> None:
    step = {
        "step": "merge",
        "params": {"sources": ["rank"], "unique_field": "key"},
        "on_error": "skip",
    }
    compiled = compile_recipe(define(RANK, step))

    assert compiled.definition["retrieval"]["pipeline"][1] == {
        "type": "merge",
        "onError": "skip",
        "sources": ["rank"],
        "uniqueField": "key",
    }
    assert compiled.steps[1].params.unique_field == "key"
    assert compiled.steps[1].on_error == "skip"


def test_default_aliases_count_up() -> None:
    compiled = compile_recipe(define(RANK, RANK, {"type": "rank", "alias": "rank_3"}, RANK))

    assert [step.alias for step in compiled.steps] == ["rank", "rank_2", "rank_3", "rank_4"]


def test_an_input_step_reads_parts_of_the_intent() -> None:
    assert not errors_of(define({"type": "derive_query", "source": "keywords"}))
    assert errors_of(
        define({"type": "filter", "field": "a", "operator": "exists", "source": "query"})
    )


def test_branches_and_conditions_are_compiled() -> None:
    step = {
        "type": "conditional",
        "condition": "query.length > 0",
        "thenSteps": [{"type": "rank", "alias": "best"}],
        "elseSteps": [{"type": "rank"}],
    }
    compiled = compile_recipe(define(step, {"type": "format", "source": "best"}))
    conditional = compiled.steps[0]

    assert conditional.condition is not None
    assert conditional.condition.text == "query.length > 0"
    assert [one.alias for one in conditional.then_steps] == ["best"]
    assert [one.alias for one in conditional.else_steps] == ["rank"]
    assert compiled.steps[1].source == "best"


def test_an_empty_optional_parameter_is_absent() -> None:
    compiled = compile_recipe(define({"type": "rank", "topK": ""}))

    assert compiled.steps[0].raw == {}
    assert compiled.steps[0].params.top_k is None


def test_a_contribution_has_defaults() -> None:
    compiled = compile_recipe(define(contribution={"priority": "critical"}))

    assert compiled.contribution.weight == 4
    assert compiled.contribution.section == "knowledge"
    assert (compiled.contribution.format, compiled.contribution.max_items) == ("bullet_list", 10)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
STEP_KEYS = st.sampled_from(
    [
        "type",
        "step",
        "alias",
        "source",
        "sources",
        "params",
        "condition",
        "thenSteps",
        "onError",
        "topK",
    ]
)
STEPS = st.dictionaries(STEP_KEYS, JSON_VALUES | st.sampled_from(["rank", "merge", "conditional"]))


@given(pipeline=JSON_VALUES | st.lists(STEPS, max_size=4), contribution=JSON_VALUES)
def test_any_json_is_checked_without_a_crash(pipeline: Any, contribution: Any) -> None:
    definition = define(contribution=contribution, retrieval={"pipeline": pipeline})

    checked = check_definition(definition)

    assert (checked.recipe is None) == bool(checked.errors)


@given(pipeline=st.lists(STEPS, max_size=4))
def test_the_stored_form_compiles_to_itself(pipeline: Any) -> None:
    recipe = check_definition(define(*pipeline)).recipe
    if recipe is not None:
        again = compile_recipe(recipe.definition)
        assert encode_definition(again.definition) == encode_definition(recipe.definition)
        assert [one.alias for one in again.steps] == [one.alias for one in recipe.steps]


VARIABLES = [{"name": f"customer_value_number_{at:03}"} for at in range(MAX_VARIABLES)]
MERGE = {"type": "merge", "sources": ["rank"] * 25_000}
SIMILAR = [f"${{customer_valeu_numbr_{at}}}" for at in range(1000)]
# Definitions that are as large as possible, and have a fault in every part.
HOSTILE = {
    "templates": define(
        {"type": "kv_get", "keys": ["".join(f"${{n{at}}}" for at in range(25_000))]},
        additional_variables=VARIABLES,
    ),
    "similar names": define(
        *[{"type": "kv_get", "keys": SIMILAR}] * 8,
        additional_variables=VARIABLES,
    ),
    "sources": define({"type": "merge", "sources": [f"n{at}" for at in range(25_000)]}),
    "keys of a step": define(RANK | {f"topk{at}": 1 for at in range(MAX_KEYS - 10)}),
    "keys": define(RANK, **{f"labell{at}": 1 for at in range(MAX_KEYS - 10)}),
    "more keys": define(RANK, **{f"k{at}": 1 for at in range(20_000)}),
    "variables": define(RANK, additional_variables=[{"name": "A"}] * 500),
    "scopes": define(RANK, inputs_scope=["tesk"] * 30_000),
    "steps": define(*(["rank"] * 30_000)),
    "condition": define(
        {"type": "early_exit", "condition": " && ".join(f"has('n{at}')" for at in range(100))}
    ),
}


@pytest.mark.parametrize("definition", HOSTILE.values(), ids=HOSTILE)
def test_a_large_definition_with_many_faults_is_checked_soon(definition: dict[str, Any]) -> None:
    started_s = time.thread_time()

    checked = check_definition(definition)

    assert time.thread_time() - started_s < 0.25
    assert 0 < len(checked.errors) + len(checked.warnings) <= 2 * MAX_FAULTS


@pytest.mark.parametrize(
    ("definition", "place", "rule"),
    [
        (HOSTILE["more keys"], "", "more than 2000 keys in its objects"),
        (HOSTILE["variables"], "/additional_variables", "has more than 200 variables"),
        (HOSTILE["scopes"], "/inputs_scope", "has more than 64 elements"),
        (define(RANK, MERGE), "/retrieval/pipeline/1/sources", "at most 64 items"),
    ],
)
def test_a_definition_beyond_a_limit_is_refused(
    definition: dict[str, Any], place: str, rule: str
) -> None:
    faults = [fault for fault in check_definition(definition).errors if rule in fault.message]

    assert [fault.path for fault in faults] == [place]
