"""recipes.execute: the statements of the format, variables, errors and bounds of a run."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Fault, InvalidInput, Refused
from memrelay.memory.models.recipes.execution.run import RunInput, prepare_input, run_recipe
from memrelay.memory.models.recipes.recipes import compile_recipe
from memrelay.memory.operations import Context
from tests.memory.builders import NOW, PLENTY, RECIPES_ID, make_guid, make_store, perform

KV = {"type": "kv_get", "instance": "app", "namespace": "prefs", "keys": ["theme"]}
LOG = {"type": "log_search", "instance": "deploys"}
# (hour, stream, type, message, ms)
DEPLOYS = [
    (10, "api", "deploy.ok", "api 1.0 is live", 900),
    (11, "web", "deploy.failed", "web 2.0 failed", 300),
    (12, "api", "deploy.failed", "api 1.1 failed", 1500),
    (13, "web", "deploy.ok", "web 2.1 is live", 700),
]


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path, RECIPES_ID)
    with store.transaction() as tx:
        for key, value in (("theme", "dark"), ("limits", {"max": 5})):
            perform(
                tx,
                "kv.set",
                instance="app",
                namespace="prefs",
                key=key,
                value=value,
                auto_create=True,
            )
        events = [
            {
                "stream_id": stream,
                "event_type": type_,
                "timestamp": f"2026-11-01T{hour}:00:00Z",
                "payload": {"service": stream, "message": message, "ms": ms},
            }
            for hour, stream, type_, message, ms in DEPLOYS
        ]
        perform(tx, "events.append", instance="deploys", auto_create=True, events=events)
        yield tx
    store.close()


def define(pipeline: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"id": "s", "label": "s", "retrieval": {"pipeline": pipeline}, **fields}


def execute(
    tx: Store, *pipeline: dict[str, Any], given: dict[str, Any] | None = None, **fields: Any
) -> Any:
    definition = define(list(pipeline), **fields)
    return perform(tx, "recipes.execute", definition=definition, **(given or {}))


def hours(result: Any) -> list[int]:
    return [int(item["timestamp"][11:13]) for item in result["finalOutput"]]


def test_the_query_is_derived_and_rewritten(tx: Store) -> None:
    intent = {"keywords": ["Preferred", "Contact Method"], "query": "x"}

    result = execute(
        tx, {"type": "derive_query"}, {"type": "rewrite_query"}, given={"intent": intent}
    )

    assert result["stepResults"] == {
        "derive_query": "Preferred Contact Method",
        "rewrite_query": "preferred contact method",
    }
    assert result["formattedOutput"] == result["query"] == "preferred contact method"


def test_a_stored_recipe_runs_by_its_id(tx: Store) -> None:
    perform(tx, "recipes.create", definition=define([KV]))

    result = perform(tx, "recipes.execute", id="s")

    assert (result["memoryLabel"], result["formattedOutput"]) == ("s", "- dark")
    with pytest.raises(Refused, match="either"):
        perform(tx, "recipes.execute")


def test_the_latest_events_are_numbered(tx: Store) -> None:
    latest = {"type": "reduce_latest", "entityField": "payload.service"}

    result = execute(tx, LOG, latest, {"type": "format", "format": "numbered"})

    assert result["formattedOutput"] == "1. web 2.1 is live\n2. api 1.1 failed"


def test_a_required_variable_is_used_or_refused(tx: Store) -> None:
    fields = {
        "additional_variables": [{"name": "wanted", "required": True}],
        "contribution": {"format": "prose"},
    }
    step = LOG | {"eventType": "${wanted}", "limit": 1}

    result = execute(tx, step, given={"variables": {"wanted": "deploy.failed"}}, **fields)

    assert result["formattedOutput"] == "api 1.1 failed."
    assert result["variables"] == {"used": ["wanted"], "missing": []}
    with pytest.raises(InvalidInput) as found:
        execute(tx, step, **fields)
    assert [fault.path for fault in found.value.faults] == ["/variables/wanted"]


@pytest.mark.parametrize(("value", "expected"), [(700, [13, 12, 10]), ("700", [])])
def test_a_filter_compares_numbers_only_with_numbers(
    tx: Store, value: Any, expected: list[int]
) -> None:
    step = {"type": "filter", "field": "payload.ms", "operator": "gte", "value": value}

    assert hours(execute(tx, LOG, step)) == expected


def test_groups_are_read_as_one_list(tx: Store) -> None:
    grouped = {"type": "group_by", "field": "eventType"}

    result = execute(tx, LOG, grouped, {"type": "summarize", "max_items": 3})

    expected = "- web 2.1 is live\n- api 1.0 is live\n- api 1.1 failed"
    assert result["formattedOutput"] == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("interleave", [12, 13, 10, 11]), ("concat", [12, 10, 13, 11])],
)
def test_two_streams_are_merged(tx: Store, strategy: str, expected: list[int]) -> None:
    streams = [LOG | {"alias": name, "streamId": name} for name in ("api", "web")]

    result = execute(
        tx, *streams, {"type": "merge", "sources": ["api", "web"], "strategy": strategy}
    )

    assert hours(result) == expected


def test_scores_are_weighted_sums(tx: Store) -> None:
    result = execute(
        tx, LOG, {"type": "score", "weights": {"payload.ms": 0.001, "sequence": 1}, "topK": 2}
    )

    assert hours(result) == [12, 13]
    assert [item["score"] for item in result["finalOutput"]] == [3.5, 2.7]


def test_a_branch_runs_and_its_results_stay_visible(tx: Store) -> None:
    condition = "results.p.length >= 1 && query.contains('deploy')"
    branch = {"type": "conditional", "condition": condition, "thenSteps": [LOG | {"limit": 2}]}
    steps = [KV | {"alias": "p"}, branch, {"type": "format"}]

    result = execute(tx, *steps, given={"intent": {"query": "last deploy"}})
    other = execute(tx, *steps, given={"intent": "something else"})

    assert result["formattedOutput"] == "- web 2.1 is live\n- api 1.1 failed"
    assert (other["stepResults"]["conditional"], other["formattedOutput"]) == (False, "- dark")


def test_an_early_exit_ends_the_recipe(tx: Store) -> None:
    result = execute(tx, KV, {"type": "early_exit", "condition": "results.count > 0"}, LOG)

    assert (result["exitedEarly"], result["formattedOutput"]) == (True, "- dark")
    assert list(result["stepResults"]) == ["kv_get", "early_exit"]


def test_a_result_of_booleans_has_no_output(tx: Store) -> None:
    result = execute(tx, {"type": "early_exit", "condition": "query.length == 0"})

    assert (result["finalOutput"], result["formattedOutput"]) == (None, "")


def test_an_unresolved_name_never_widens_a_read(tx: Store) -> None:
    for extra in ({}, {"given": {"scope_variables": {"user": {"user_id": ""}}}}):
        result = execute(tx, LOG | {"streamId": "${user_id}"}, inputs_scope=["user"], **extra)

        assert result["finalOutput"] == []
        assert [one["code"] for one in result["warnings"]] == ["unresolved"]


def test_an_optional_parameter_that_becomes_empty_is_absent(tx: Store) -> None:
    steps = [LOG, {"type": "deduplicate", "field": "${nothing}"}]
    result = execute(tx, *steps, {"type": "filter", "field": "${nothing}", "operator": "exists"})

    assert len(result["stepResults"]["deduplicate"]) == 4
    assert result["variables"]["missing"] == ["nothing"]
    assert (result["error"]["alias"], result["error"]["code"]) == ("filter", "bad_param")


def test_names_reach_intent_scopes_and_results(tx: Store) -> None:
    pick = {"type": "filter", "field": "payload.service", "operator": "eq"}
    intent = {"context": {"service": "web"}, "keywords": ["a", "b"]}
    given = {"intent": intent, "scope_variables": {"task": {"task_id": "T"}}, "thread_id": "R"}

    result = execute(
        tx,
        LOG,
        pick | {"value": "${context.service}"},
        {"type": "annotate", "label": "${task_id} ${thread_id} ${project_id} ${keywords}"},
        {"type": "annotate", "alias": "last", "label": "${filter.0.payload.ms} ${user_id}"},
        inputs_scope=["task", "thread", "project"],
        given=given,
    )

    labels = [items[0]["provenance"]["label"] for items in list(result["stepResults"].values())[2:]]
    assert labels == ["T R a3d8f1b2 a, b", "700 "]
    assert result["variables"]["missing"] == ["user_id"]


def test_values_that_are_known_before_the_run_are_checked_first(tx: Store) -> None:
    with pytest.raises(InvalidInput) as found:
        execute(
            tx,
            LOG | {"limit": "${most}"},
            additional_variables=[{"name": "most"}],
            given={"variables": {"most": "many"}, "intent": "x"},
        )

    assert [(fault.path, fault.code) for fault in found.value.faults] == [
        ("/variables/most", "bad_param")
    ]
    with pytest.raises(InvalidInput) as found:
        execute(tx, KV, given={"intent": {"query": 1, "keywords": [1]}})
    assert [fault.path for fault in found.value.faults] == ["/intent/query", "/intent/keywords"]
    with pytest.raises(InvalidInput, match="must be a list of texts"):
        execute(tx, KV, given={"intent": {"keywords": 5}})
    assert isinstance(found.value.faults[0], Fault)


def test_what_is_not_declared_is_ignored_with_a_warning(tx: Store) -> None:
    result = execute(
        tx,
        KV,
        given={"variables": {"x": 1}, "scope_variables": {"user": {"user_id": "u"}}},
        status="deprecated",
    )

    codes = [one["code"] for one in result["warnings"]]
    assert codes == ["unknown_variable", "unknown_variable", "deprecated"]


def test_a_failed_step_ends_the_run_unless_it_is_skipped(tx: Store) -> None:
    absent = LOG | {"instance": "absent"}

    failed = execute(tx, KV, absent, {"type": "format"})
    skipped = execute(tx, KV, absent | {"onError": "skip"}, {"type": "format"})

    assert (failed["success"], failed["error"]["code"]) == (False, "unknown_instance")
    assert list(failed["stepResults"]) == ["kv_get"]
    assert skipped["success"] and skipped["stepResults"]["log_search"] == []
    assert [one["code"] for one in skipped["warnings"]] == ["unknown_instance"]


def test_a_step_without_input_warns(tx: Store) -> None:
    branch = {"type": "conditional", "condition": "false", "thenSteps": [LOG]}

    result = execute(tx, {"type": "summarize"}, branch, {"type": "rank", "source": "log_search"})

    assert result["stepResults"]["rank"] == []
    assert [(one["alias"], one["code"]) for one in result["warnings"]] == [
        ("summarize", "no_input"),
        ("rank", "no_input"),
    ]


def test_a_recipe_without_steps_warns(tx: Store) -> None:
    result = execute(tx)

    assert result["success"]
    assert [one["code"] for one in result["warnings"]] == ["empty_pipeline"]


def test_too_many_items_and_bytes_end_the_run_regardless_of_on_error(tx: Store) -> None:
    for _ in range(3):
        event = {"stream_id": "big", "event_type": "x", "payload": {"text": "x" * 3000}}
        perform(tx, "events.append", instance="deploys", events=[event] * 200)
    big = LOG | {"streamId": "big", "limit": 600, "alias": "big"}
    twice = {"type": "merge", "sources": ["big", "big"], "onError": "skip"}

    many = execute(tx, big, twice)
    large = execute(
        tx, big, *[{"type": "rank", "source": "big", "onError": "skip"} for _ in range(3)]
    )

    assert (many["error"]["alias"], many["error"]["code"]) == ("merge", "too_many_items")
    assert large["error"]["code"] == "too_large"
    assert list(large["stepResults"]) == ["big", "rank"]


def test_values_in_parameters_are_bounded(tx: Store) -> None:
    text = {"instance": "app", "namespace": "prefs", "key": "long", "value": "x" * 200_000}
    perform(tx, "kv.set", **text)
    long = KV | {"keys": ["long"], "alias": "long"}
    growing = {"type": "annotate", "label": "${long}" * 1000, "onError": "skip"}

    result = execute(tx, long, growing)

    assert (result["error"]["alias"], result["error"]["code"]) == ("annotate", "too_large")
    with pytest.raises(InvalidInput, match="the parameters exceed"):
        execute(
            tx,
            {"type": "annotate", "label": "${name}" * 1000},
            given={"variables": {"name": "x" * 200_000}},
            additional_variables=[{"name": "name"}],
        )


def test_a_run_ends_after_its_time(tx: Store) -> None:
    ticks = count()
    recipe = compile_recipe(define([KV, *[{"type": "rank", "onError": "skip"}] * 9]))
    context = Context(NOW, "tester", PLENTY, make_guid)

    # Each step takes 0.3 s by this clock.
    steps = run_recipe(tx, recipe, RunInput(), context, lambda: next(ticks) * 0.3)
    result = _finish(steps, tx)

    assert (result["success"], result["error"]["code"]) == (False, "timeout")
    assert list(result["stepResults"]) == ["kv_get", "rank", "rank_2"]


def _finish(steps: Any, tx: Store) -> Any:
    try:
        next(steps)
        while True:
            steps.send(tx)
    except StopIteration as end:
        return end.value


def test_variables_that_are_ignored_get_the_right_name() -> None:
    definition = {
        "id": "r",
        "label": "R",
        "inputs_scope": ["user"],
        "additional_variables": [{"name": "since"}],
    }
    given = RunInput(
        variables={"user_id": "ada", "sinc": 1},
        scope_variables={"usr": {"user_id": 1}, "user": {"usr_id": 1}, "task": {"task_id": 1}},
    )

    found = [text for _, text in prepare_input(compile_recipe(definition), given, "").warnings]

    assert found == [
        'unknown scope "usr" (did you mean "user"?)',
        'scope user has no variable "usr_id" (did you mean "user_id"?)',
        'the recipe does not read the scope "task", so "task_id" is ignored',
        "user_id belongs to the scope user; send scope_variables.user.user_id",
        '"sinc" is not declared and is ignored (did you mean "since"?)',
    ]
