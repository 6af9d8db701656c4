"""Validation errors in the words of JSON instead of Python."""

from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.operations import find_operation
from memrelay.pipelines.rules import in_a_line


@pytest.mark.parametrize(
    ("op", "given", "told"),
    [
        ("records.list", {"filter": [1]}, "filter: must be an object"),
        ("records.list", {"filter": "kind"}, "filter: must be an object"),
        ("records.list", {"limit": "ten"}, "limit: must be a valid integer"),
        ("records.create", {"content": "tea", "tags": "green"}, "tags: must be a list"),
        ("records.create", {}, "content: is missing"),
        ("records.create", {"content": "tea", "colour": "green"}, "colour: is no field of it"),
        ("records.list", {"limit": "ten", "filter": 1}, "; "),
        ("records.list", [], "the input: must be"),
    ],
)
def test_every_fault_is_reported_with_its_place(op: str, given: Any, told: str) -> None:
    operation = find_operation(op)
    assert operation is not None

    with pytest.raises(ValidationError) as caught:
        operation.adapter.validate_json(orjson.dumps(given), strict=True)

    line = in_a_line(caught.value)
    assert told in line
    assert not any(word in line for word in ("dictionary", "tuple", "Input should", "Value error"))
