"""The block `recipe`: a recipe that runs on the messages of a pipeline."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.blocks.recipe import RecipeArgs
from tests.support.bundles import Json, make_agent, make_bundle
from tests.support.house import House
from tests.support.waiting import wait_for

FIRST, SECOND = {"type": "derive_query"}, {"type": "rewrite_query"}
QUERY: Json = {"id": "q", "label": "Q", "retrieval": {"pipeline": [FIRST, SECOND]}}
LOG: Json = {
    "id": "l",
    "label": "L",
    "retrieval": {"pipeline": [{"type": "log_search", "instance": "nowhere"}]},
}


def answer(house: House, uid: str, text: str, **args: Any) -> str:
    """Deploy the block with these arguments, and return its answer to a text."""
    house.deploy(make_bundle(uid, make_agent("reader", "recipe", args, hears="User")))
    house.client.enter(uid, text)

    def texts() -> list[str]:
        return [one.text for one in house.client.log(uid) if one.sender != "User"]

    wait_for(texts, "the answer")
    (found,) = texts()
    return found


def test_a_text_is_the_query_and_an_object_is_the_intent(house: House) -> None:
    assert answer(house, "one", "Last DEPLOY", definition=QUERY) == "last deploy"
    intent = json.dumps({"keywords": ["Contact", "Method"], "query": "x"})
    assert answer(house, "two", intent, definition=QUERY) == "contact method"


def test_the_answer_is_the_final_output_or_the_whole_result(house: House) -> None:
    items = answer(house, "items", "Tea", definition=QUERY, output="items")
    result = json.loads(answer(house, "result", "Tea", definition=QUERY, output="result"))

    assert json.loads(items) == "tea"
    assert (result["success"], result["formattedOutput"]) == (True, "tea")
    assert list(result["stepResults"]) == ["derive_query", "rewrite_query"]


def test_a_recipe_that_fails_or_is_missing_answers_with_an_error(house: House) -> None:
    failed = json.loads(answer(house, "failed", "x", definition=LOG))
    missing = json.loads(answer(house, "missing", "x", recipe="none"))

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
