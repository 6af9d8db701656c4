"""The block `recipe`: a recipe that runs on the messages of a pipeline."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.blocks.recipe import RecipeArgs
from memrelay.testing import test_pipeline
from tests.support.bundles import Json, make_agent, make_bundle
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

FIRST, SECOND = {"type": "derive_query"}, {"type": "rewrite_query"}
QUERY: Json = {"id": "q", "label": "Q", "retrieval": {"pipeline": [FIRST, SECOND]}}
LOG: Json = {
    "id": "l",
    "label": "L",
    "retrieval": {"pipeline": [{"type": "log_search", "instance": "nowhere"}]},
}


def answer(text: str, **args: Any) -> str:
    """Return the answer of the block with these arguments."""
    reader = make_agent("reader", "recipe", args, senders="User")
    with test_pipeline(make_bundle("recipes", reader)) as p:
        (found,) = p.say(text)
        return found.text


def test_a_text_is_the_query_and_an_object_is_the_intent() -> None:
    assert answer("Last DEPLOY", definition=QUERY) == "last deploy"
    intent = json.dumps({"keywords": ["Contact", "Method"], "query": "x"})
    assert answer(intent, definition=QUERY) == "contact method"


def test_the_answer_is_the_final_output_or_the_whole_result() -> None:
    items = answer("Tea", definition=QUERY, output="items")
    result = json.loads(answer("Tea", definition=QUERY, output="result"))

    assert json.loads(items) == "tea"
    assert (result["success"], result["formattedOutput"]) == (True, "tea")
    assert list(result["stepResults"]) == ["derive_query", "rewrite_query"]


def test_a_recipe_that_fails_or_is_missing_answers_with_an_error() -> None:
    failed = json.loads(answer("x", definition=LOG))
    missing = json.loads(answer("x", recipe="none"))

    assert "nowhere" in failed["error"]
    assert "no recipe has the id 'none'" in missing["error"]


def test_a_definition_is_checked_with_the_arguments() -> None:
    wrong = {"id": "q", "retrieval": {"pipeline": [{"type": "vector_serch"}]}}
    with pytest.raises(ValidationError) as caught:
        RecipeArgs(definition=wrong)
    assert "/label: label is missing" in str(caught.value)
    assert 'unknown step type "vector_serch"' in str(caught.value)
    with pytest.raises(ValidationError, match="either `recipe`"):
        RecipeArgs()
    with pytest.raises(ValidationError, match="either `recipe`"):
        RecipeArgs(recipe="q", definition=QUERY)


PREFERENCES: Json = {
    "id": "p",
    "label": "P",
    "inputs_scope": ["user"],
    "additional_variables": [{"name": "key", "default": "contact"}],
    "retrieval": {
        "pipeline": [{"type": "log_search", "instance": "${user_id}", "streamId": "${key}"}]
    },
}
ADA: Json = {"user": {"user_id": "ada"}}


def test_scope_variables_come_from_the_arguments_or_from_the_message() -> None:
    other = json.dumps({"query": "x", "scope_variables": {"user": {"user_id": "ben"}}})
    fixed = answer(other, definition=PREFERENCES, scope_variables=ADA)
    given = answer(other, definition=PREFERENCES)

    assert "ada" in json.loads(fixed)["error"]
    assert "ben" in json.loads(given)["error"]


@pytest.mark.parametrize("output", ["formatted", "items"])
def test_an_answer_without_items_gives_the_warnings(output: str) -> None:
    found = json.loads(answer("x", definition=PREFERENCES, output=output))

    assert [one["code"] for one in found["warnings"]] == ["unresolved"]
    assert "user_id" in found["warnings"][0]["message"]


@pytest.mark.parametrize(
    ("args", "rule"),
    [
        ({"scope_variables": {"usr": {}}}, 'unknown scope "usr" (did you mean "user"?)'),
        ({"scope_variables": {"user": {"usr_id": 1}}}, 'did you mean "user_id"?'),
        ({"scope_variables": {"task": {"task_id": 1}}}, 'does not read the scope "task"'),
        ({"variables": {"user_id": "ada"}}, "send scope_variables.user.user_id"),
        ({"variables": {"keys": "x"}}, 'no variable "keys" (did you mean "key"?)'),
    ],
)
def test_deploy_refuses_variables_that_a_definition_does_not_declare(args: Json, rule: str) -> None:
    with pytest.raises(ValidationError) as caught:
        RecipeArgs(definition=PREFERENCES, **args)

    assert rule in str(caught.value)


def test_a_recipe_leaves_a_receipt_with_the_records_of_all_stores(system: TestSystem) -> None:
    uid, store = "receipts", "instances/receipts/memories"
    step = {"type": "vector_search", "collection": f"store:{store}", "mode": "fts"}
    recipe: Json = {"id": "s", "label": "S", "retrieval": {"pipeline": [FIRST, step]}}
    reader = make_agent("reader", "recipe", {"definition": recipe}, senders="User")
    system.deploy(make_bundle(uid, reader | {"receipts": True}))
    guid = call(system, uid, "records.create", {"content": "green tea"}, store=store)["guid"]
    ident = system.client.enter(uid, "tea")
    system.client.await_done(uid, ident)

    def list_receipts() -> list[Json]:
        return list(call(system, uid, "receipts.list", {"message": ident})["items"])

    # The recipe is a deferred call, which may run after its message.
    (receipt,) = wait_for(list_receipts, "the recipe leaves a receipt")
    assert (receipt["operation"], receipt["agent"]) == ("recipes.execute", "reader")
    assert [(one["guid"], one["version"]) for one in receipt["found"]] == [(guid, 1)]
    (use,) = call(system, uid, "records.uses", {"guid": guid})["items"]
    assert (use["message"], use["is_present"]) == (ident, True)
