"""Patterns: linear time, and the fast paths for commands match exactly as RE2."""

import pytest
import re2
from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.blocks.patterns import BadPattern, Pattern, PatternSet

COMMANDS = ("/write", "/w", "/writ", "/write_x", "/WRITE", "/e131_fill", "/0", "/_")
TAILS = (r"\b", r"\b\s*(.*)", r"\s+(.*)", r"\s+(\S+)")
PREFIXES = ("/", "/write", "!", "#tag", "@me", "w", "0", "_", "//", "/!", "!/write")
ALMOST = (
    r"\s+(.+)",
    r"\s*(.*)",
    r"\s+(.*)$",
    "$",
    r"\B",
    r"(\s+)(.*)",
    r"\s+\S+",
    r"\s(.*)",
    r"\s+(?:.*)",
    "?",
    "*",
    ".",
)
GENERAL = (
    "", "a", "write", r"\s", r"(\w+)", "(x)|y", r"^\S+$", r"/write\b", r"\bwrite\b", "é", ".",
    r"\pL+", "^(?:/w|/x)(.*)",
    "(a*)*b", "$^", "[^/]", r"\A/", r"(?i)/WRITE", r"\x00", "()", "^$",
)  # fmt: skip

commands = st.builds(
    lambda word, tail: f"^{word}{tail}", st.sampled_from(COMMANDS), st.sampled_from(TAILS)
)
prefixes = st.sampled_from(PREFIXES).map(lambda prefix: f"^{prefix}")
almost = st.builds(
    lambda word, tail: f"^{word}{tail}", st.sampled_from(COMMANDS), st.sampled_from(ALMOST)
)
sources = commands | prefixes | almost | st.sampled_from(GENERAL)
flags = st.sampled_from(("", "", "", "i", "s", "m", "ism"))

odd = st.sampled_from(" \t\n\r\f\v\x00\x1c\x85\xa0\u2003\u2028é🫖_-/!#@ab0٣")
pieces = (
    st.sampled_from((*COMMANDS, *PREFIXES, "write", "arg", "\n/write ", "\r\n"))
    | odd
    | st.text(max_size=3)
)
texts = st.lists(pieces, max_size=7).map("".join) | st.text(max_size=20)


def by_re2(source: str, text: str, group: int) -> str | None:
    """Match with RE2 directly."""
    found = re2.compile(source).search(text)
    return None if found is None else found[group] or ""


def assert_same(source: str, text: str) -> None:
    pattern = Pattern(source)
    for group in range(pattern.groups + 1):
        assert pattern.capture(text, group) == by_re2(source, text, group), (source, text, group)


@given(commands, texts)
@example(r"^/write\s+(.*)", "/write \n x\ny")
@example(r"^/write\s+(.*)", "/write\v x")
@example(r"^/write\s+(\S+)", "/write \x85 x")
@example(r"^/write\s+(\S+)", "/write \n")
@example(r"^/write\b", "/writeé")
@example(r"^/write\b\s*(.*)", "/write.x")
@example(r"^/write\b", "/write")
def test_a_command_matches_as_in_re2(source: str, text: str) -> None:
    assert_same(source, text)


@given(
    commands.flatmap(
        lambda source: st.tuples(
            st.just(source), texts.map(lambda text: source[1:].split("\\")[0] + text)
        )
    )
)
def test_a_command_matches_as_in_re2_in_a_text_that_begins_with_it(
    case: tuple[str, str],
) -> None:
    assert_same(*case)


@given(prefixes, texts)
def test_a_prefix_matches_as_in_re2(source: str, text: str) -> None:
    assert_same(source, text)


@given(almost | st.sampled_from(GENERAL), texts)
def test_a_pattern_similar_to_a_command_matches_as_in_re2(source: str, text: str) -> None:
    assert_same(source, text)


@given(sources, flags, texts)
def test_flags_work_as_in_re2(source: str, given_flags: str, text: str) -> None:
    pattern = Pattern(source, given_flags)
    flagged = f"(?{given_flags})(?:{source})" if given_flags else source

    found = [pattern.capture(text, group) for group in range(pattern.groups + 1)]

    assert found == [by_re2(flagged, text, group) for group in range(pattern.groups + 1)]


@given(st.lists(st.tuples(sources, flags), max_size=8), texts)
@example(
    [(r"^/write\s+(.*)", ""), ("^/", ""), (r"^/write\b", ""), ("^/write", ""), ("", "")], "/write x"
)
def test_a_pattern_set_matches_as_each_pattern_alone(
    asked: list[tuple[str, str]], text: str
) -> None:
    patterns = [Pattern(source, given_flags) for source, given_flags in asked]
    alone = [at for at, pattern in enumerate(patterns) if pattern.capture(text, 0) is not None]

    assert list(PatternSet(patterns).matching(text)) == alone


def test_an_empty_pattern_set_matches_nothing() -> None:
    assert list(PatternSet([]).matching("/write x")) == []


@pytest.mark.slow
def test_patterns_that_are_too_large_together_are_matched_one_by_one() -> None:
    patterns = PatternSet([Pattern(rf"\pL{{1,4}}x{number}") for number in range(600)])

    assert list(patterns.matching("éx0 éx2")) == [0, 2]


@pytest.mark.parametrize(
    "source", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*)*x", "^(a?){50}a{50}$", r"(\s*\w*)*!"]
)
@pytest.mark.parametrize("end", ["", "!", "\n"])
def test_every_pattern_takes_linear_time(source: str, end: str) -> None:
    text = "a" * 100_000 + end
    patterns = [Pattern(source), Pattern("^/")]

    alone = patterns[0].capture(text, 0) is not None

    assert list(PatternSet(patterns).matching(text)) == [0] * alone


def test_many_patterns_on_a_long_text_return_in_time() -> None:
    patterns = [Pattern(f"(a+)+{chr(98 + number)}$") for number in range(20)]

    assert list(PatternSet(patterns).matching("a" * 100_000 + "c")) == [1]


@pytest.mark.parametrize("text", ["é", "🫖", "日本", "a\u0301"])
@pytest.mark.parametrize("source", [r"(\C)", r"\C", r"^(\C\C)"])
def test_a_character_is_never_split(source: str, text: str) -> None:
    try:
        pattern = Pattern(source)
    except BadPattern:
        return

    for group in range(pattern.groups + 1):
        assert isinstance(pattern.capture(text, group), str)


@pytest.mark.parametrize(
    ("source", "given_flags", "told"),
    [
        ("(", "", "missing"),
        ("[a", "", "missing"),
        (r"\1", "", "back-references"),
        ("(?<=a)b", "", "look-around"),
        ("x{2000}", "", "repetition"),
        ("a", "ix", "flags are any of i, s and m"),
        ("a", " ", "flags are any of i, s and m"),
        ("x" * 2001, "", "2001 characters; at most 2000"),
        ("\ud800", "", "RE2 refuses"),
    ],
)
def test_an_invalid_pattern_is_reported_with_the_rule(
    source: str, given_flags: str, told: str
) -> None:
    with pytest.raises(BadPattern, match=told) as refused:
        Pattern(source, given_flags)

    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("group", "number"), [(0, 0), (1, 1), (2, 2), ("0", 0), ("2", 2), ("drink", 2), ("é", 3)]
)
def test_a_group_is_found_by_number_or_name(group: int | str, number: int) -> None:
    assert Pattern("(a)(?P<drink>b)(?P<é>c)").group_number(group) == number


@pytest.mark.parametrize("group", [-1, 4, "4", "-1", "", "tea", "DRINK", "²"])
def test_an_unknown_group_is_an_error(group: int | str) -> None:
    with pytest.raises(BadPattern, match="no group"):
        Pattern("(a)(?P<drink>b)(c)").group_number(group)
