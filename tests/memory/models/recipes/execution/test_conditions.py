"""Conditions: comparisons, aliases without result, and errors with their position."""

from typing import Any

import pytest

from memrelay.memory.models.recipes.execution.conditions import (
    MAX_NESTING,
    MISSING,
    ConditionError,
    get_field,
    get_path,
    parse_condition,
)


class Scope:
    """The values of a run."""

    query = "last deploy"

    def __init__(self) -> None:
        self.results: dict[str, Any] = {
            "p": [{"id": 1, "v": {"x": 2}}],
            "text": "abc",
            "g": {"a": [{"id": "z"}], "b": [{"id": "y"}]},
            "done": True,
        }
        self.lacking: list[str] = []

    def variable(self, name: str) -> Any:
        return {"x": 5, "yes": True}.get(name, MISSING)

    def lacks(self, alias: str) -> None:
        self.lacking.append(alias)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("results.p.length >= 1 && query.contains('deploy')", True),
        ("query.contains('Deploy')", False),
        ("query.length == 11", True),
        ("!(vars.x > 4) || false", False),
        ("false || true && true", True),
        ("!false && !vars.y", True),
        ("results.count == 3", True),
        ("results.text.length == 3 && results.g.length == 2", True),
        ("results.p.0.v.x == 2.0", True),
        ("results.g.b.0.id == 'y' && results.g.1.id == \"y\"", True),
        ("results.done", True),
        ("vars.yes", True),
        ("vars.x", False),
        ("1", False),
        ("results.count", False),
        ("vars.y == null", True),
        ("vars.x == '5'", False),
        ("vars.x != '5'", True),
        ("vars.x < '6' || vars.x >= '5' || true < 2", False),
        ("-1.5 < 0 && 'a' < 'b'", True),
        (r"""'it\'s' == "it's" && "say \"x\"" == 'say "x"'""", True),
        (r"""'a\\' == "a\\" && 'C:\dir' == "C:\\dir" && '\n' != 'n'""", True),
        (r"query.contains('\'')", False),
    ],
)
def test_a_condition_holds_only_if_it_is_true(text: str, expected: bool) -> None:
    assert parse_condition(text).holds(Scope()) is expected


def test_a_position_of_many_digits_does_not_exist() -> None:
    digits = "1" * 5000

    assert get_path({"rows": ["tea"]}, ["rows", digits]) is MISSING
    assert get_field({"rows": ["tea"]}, f"rows.{digits}") is MISSING
    assert get_path({"rows": ["tea"]}, ["rows", "0"]) == "tea"


def test_an_alias_without_result_has_length_0_and_is_noted() -> None:
    scope, condition = Scope(), parse_condition("results.later.length == 0 && vars.x == 5")

    assert condition.holds(scope)
    assert (scope.lacking, condition.aliases, condition.variables) == (
        ["later"],
        ("later",),
        ("x",),
    )


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 1),
        ("results.p >", 12),
        ("nothing == 1", 1),
        ("query.contains(3)", 16),
        ("(true", 6),
        ("true)", 5),
        ("query == 'abc", 10),
        (r"query == 'abc\'", 10),
        ("query # 3", 7),
        ("5 5", 3),
        ("results", 1),
        ("(" * (MAX_NESTING + 1) + "true", MAX_NESTING + 1),
        ("!" * (MAX_NESTING + 1) + "true", MAX_NESTING + 1),
    ],
)
def test_a_malformed_condition_names_the_position(text: str, position: int) -> None:
    with pytest.raises(ConditionError, match=f"at position {position}$") as found:
        parse_condition(text)

    assert found.value.position == position
