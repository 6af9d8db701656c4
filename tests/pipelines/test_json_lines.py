"""The lines of a text at which the values of JSON pointers begin."""

import json

import pytest

from memrelay.pipelines.json_text import find_lines

TEXT = """{
  "pipeline_name": "tea, {milk} [sugar]",
  "agents": [
    {"agent_name": "a", "args": [1, 2]},
    {
      "agent_name": "say \\"hi\\"",
      "a/b~c":
        [true, {"deep": null}]
    }
  ],
  "empty": {}
}"""


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("", 1),
        ("/pipeline_name", 2),
        ("/agents", 3),
        ("/agents/0", 4),
        ("/agents/0/args/1", 4),
        ("/agents/1", 5),
        ("/agents/1/agent_name", 6),
        ("/agents/1/a~1b~0c", 7),
        ("/agents/1/a~1b~0c/1/deep", 8),
        ("/empty", 11),
    ],
)
def test_a_value_begins_at_its_line(pointer: str, line: int) -> None:
    assert find_lines(TEXT.encode(), [pointer]) == {pointer: line}


@pytest.mark.parametrize(
    ("pointer", "line"),
    [("/agents/1/agent_from", 5), ("/agents/7", 3), ("/missing/deeper", 1), ("/empty/x", 11)],
)
def test_a_missing_value_has_the_line_of_what_is_around_it(pointer: str, line: int) -> None:
    assert find_lines(TEXT.encode(), [pointer]) == {pointer: line}


def test_a_text_that_is_not_json_has_the_line_of_its_first_fault() -> None:
    broken = TEXT.replace('"a",', '"a"')

    assert find_lines(broken.encode(), ["", "/agents"]) == {"": 4, "/agents": 4}
    assert find_lines(b'{\n"a": "\xff"}', [""]) == {"": 2}


def test_a_byte_order_mark_does_not_count() -> None:
    assert find_lines(b"\xef\xbb\xbf" + TEXT.encode(), ["/agents/1"]) == {"/agents/1": 5}


def test_all_values_of_a_large_text_are_found_at_once() -> None:
    agents = [{"agent_name": str(number), "args": [number]} for number in range(2000)]
    text = json.dumps({"agents": agents}, indent=1)

    found = find_lines(text.encode(), [f"/agents/{number}/args/0" for number in range(2000)])

    lines = text.split("\n")
    assert all(
        lines[found[f"/agents/{number}/args/0"] - 1].strip() == str(number)
        for number in range(2000)
    )
