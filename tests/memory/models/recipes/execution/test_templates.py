"""Templates: types, lists, literals, and names without value."""

from typing import Any

import pytest

from memrelay.memory.models.recipes.execution.conditions import MISSING
from memrelay.memory.models.recipes.execution.run import find_templates, has_templates, substitute

VALUES = {"a": "x", "n": 5, "list": ["p", 2], "o": {"k": 1}, "again": "${a}"}


def fill(value: Any) -> Any:
    return substitute(value, lambda name: VALUES.get(name, MISSING))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${a}", "x"),
        ("${ n }", 5),
        ("-${n}-", "-5-"),
        ("${list}", ["p", 2]),
        ("in ${list} ${o}", 'in p, 2 {"k":1}'),
        ("$${a} ${a}", "${a} x"),
        ("${again}", "${a}"),
        ("<${again}>", "<${a}>"),
        ("${absent}", ""),
        ("z${absent}", "z"),
        ({"k": ["${n}", 1, None]}, {"k": [5, 1, None]}),
        ("$a ${", "$a ${"),
    ],
)
def test_a_template_is_replaced_once(value: Any, expected: Any) -> None:
    assert fill(value) == expected


def test_names_are_found_in_nested_values() -> None:
    value = {"x": ["${a} ${b.c}", {"y": "${a}"}], "z": "$${no}", "n": 1}

    assert find_templates(value) == ("a", "b.c")
    assert [has_templates(one) for one in ("$${no}", "no", {"x": ["${a}"]}, 1)] == [
        True,
        False,
        True,
        False,
    ]
