"""The texts of Anthropic's memory tool, without a store."""

from typing import Any

import pytest

from memrelay.memory.models.shared_stores.tool.arguments import ToolError
from memrelay.memory.models.shared_stores.tool.files import (
    format_file,
    format_listing,
    format_size,
    insert_text,
    parse_file_path,
    replace_text,
)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("/memories", ""),
        ("/memories/", ""),
        ("/memories/a.md", "a.md"),
        ("/memories//a//b/", "a/b"),
        ("/memories/./a/./b", "a/b"),
        ("/memories/" + "x" * 1014, "x" * 1014),
    ],
)
def test_a_path_names_a_key_with_its_suffix(path: str, key: str) -> None:
    assert parse_file_path(path) == key


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/x", "Path must start with /memories, got: /etc/x"),
        ("", "Path must start with /memories, got: "),
        ("/memories/../x", "Path /memories/../x would escape /memories directory"),
        ("/memories/..", "Path /memories/.. would escape /memories directory"),
        *(
            (path, f"Path {path} would escape /memories directory")
            for path in (
                "/memories/../../memories/x",
                "/memories/a/../b",
                "/memories/a\\b",
                "/memories/a\0b",
            )
        ),
        *(
            (
                f"/memories/{path}",
                f"Path /memories/{path} has the hidden name {name}: choose a name that does not "
                "begin with a dot",
            )
            for path, name in ((".hidden", ".hidden"), ("a/.git/b", ".git"), ("...", "..."))
        ),
        *(
            (path, f"Path {path} is too long: a path has at most 1024 bytes")
            for path in ("/memories/" + "x" * 1015, "/memories/" + "\u00e9" * 508)
        ),
    ],
)
def test_a_path_that_names_no_file_is_refused(path: str, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        parse_file_path(path)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1023, "1023B"), (1024, "1K"), (1536, "1.5K"), (3 << 20, "3M"), (1 << 42, "4096G")],
)
def test_a_size_has_a_unit(size: int, text: str) -> None:
    assert format_size(size) == text


def test_a_listing_has_two_levels_sums_and_no_hidden_items() -> None:
    files = [("b", 1), ("a/x", 1000), ("a/c/deep", 536), ("a-b", 0), (".h/x", 5), ("a/.h", 8)]

    assert format_listing("/memories", files).split("\n") == [
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden "
        "items:",
        "1.5K\t/memories",
        "1.5K\t/memories/a/",
        "536B\t/memories/a/c/",
        "1000B\t/memories/a/x",
        "0B\t/memories/a-b",
        "1B\t/memories/b",
    ]


@pytest.mark.parametrize(
    ("view_range", "lines"),
    [
        (None, ["     1\tone", "     2\ttwo", "     3\t"]),
        ([2, 2], ["     2\ttwo"]),
        ([2, -1], ["     2\ttwo", "     3\t"]),
        ([0, 1], ["     1\tone"]),
        ([1], ["     1\tone", "     2\ttwo", "     3\t"]),
    ],
)
def test_a_file_has_numbered_lines(view_range: Any, lines: list[str]) -> None:
    header = "Here's the content of /memories/t with line numbers:"

    assert format_file("/memories/t", "one\ntwo\n", view_range).split("\n") == [header, *lines]


def test_a_replacement_shows_two_lines_around_it() -> None:
    edited, answer = replace_text("/memories/t", "1\n2\n3\n4\n5\n6", "4", "$&")

    assert edited == "1\n2\n3\n$&\n5\n6"
    assert answer.split("\n") == [
        "The memory file has been edited. Here is the snippet showing the change (with line "
        "numbers):",
        "     2\t2",
        "     3\t3",
        "     4\t$&",
        "     5\t5",
        "     6\t6",
    ]


@pytest.mark.parametrize(
    ("old", "text"),
    [
        (
            "x",
            "No replacement was performed, old_str `x` did not appear verbatim in /memories/t.",
        ),
        (
            "a",
            "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 3. "
            "Please ensure it is unique",
        ),
    ],
)
def test_a_replacement_needs_one_occurrence(old: str, text: str) -> None:
    with pytest.raises(ToolError) as caught:
        replace_text("/memories/t", "a\nb\na", old, "c")
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("one\ntwo", 0, "new\none\ntwo\n"),
        ("one\ntwo\n", 2, "one\ntwo\nnew\n"),
        ("", 0, "new\n"),
    ],
)
def test_a_line_is_inserted(text: str, line: int, expected: str) -> None:
    assert insert_text(text, line, "new\n\n") == expected


@pytest.mark.parametrize("line", [-1, 3, "1", True])
def test_a_line_is_inserted_only_within_the_file(line: Any) -> None:
    with pytest.raises(ToolError) as caught:
        insert_text("one\ntwo\n", line, "new")
    assert str(caught.value) == (
        f"Invalid `insert_line` parameter: {line}. It should be within the range [0, 2]."
    )
