"""Finds values in texts by named patterns or by a pattern of the user, and replaces them."""

import hmac
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import re2

from memrelay.memory.models.policies.patterns.catalog import ANY, BY_NAME, SETS, NamedPattern

MAX_PATTERN = 2000  # characters
# Of a user's pattern. In the worst case, a step of the program costs 1 ns for each byte of a text.
MAX_STEPS = 5_000
# Bytes of all compiled patterns of a finder. A set needs them to match in one pass.
MAX_MEMORY = 64 << 20
# Values that one text reports, at most. A record with more is redacted to its end.
MAX_FOUND = 10_000
OWN = "pattern"
DIGEST_DIGITS = 8
SEPARATOR = "\n\x00\n"
# The form of a redaction. A name such as `shopify_token` before a digest looks like a secret.
REPLACED = re2.compile(rf"\[[a-z0-9_]+:[0-9a-f]{{{DIGEST_DIGITS}}}\]")
# White space and other characters as JSON in a text writes them, also JSON inside of JSON.
ESCAPES = re.compile(r"(?<!\\)\\++(?:[bfnrt]|u[0-9A-Fa-f]{4})")


class BadFind(ValueError):
    """The `find` of a policy is unknown or invalid."""


class Match(NamedTuple):
    """A found value: the name of its pattern, and its place in characters."""

    name: str
    start: int
    end: int


class Finder:
    """Finds the values of some patterns."""

    def __init__(self, patterns: Sequence[NamedPattern]) -> None:
        self._patterns = patterns
        options = _options(MAX_MEMORY)
        self._set = re2.Set.SearchSet(options)
        for one in patterns:
            self._set.Add(one.source.encode())
        self._set.Compile()
        # The set itself, without its Python layer, which costs as much as a match.
        self._match = getattr(self._set, "_set", self._set).Match

    def may_match(self, texts: Iterable[str]) -> bool:
        """Return whether `find` may find something in one of the texts. It is much cheaper."""
        text = SEPARATOR.join(texts)
        return any(self._match(one.encode("utf-8", "replace")) for one in _list_readings(text))

    def find(self, text: str) -> list[Match]:
        """Return the values in a text in their order. If some overlap, the first and longest
        one counts. A redaction is no value.
        """
        text, found = text.encode(errors="replace").decode(), list[Match]()
        for one in _list_readings(text):
            for at in self._match(one.encode()) or ():
                found += _find(self._patterns[at], self._compiled[at], one)
        if found and "[" in text:
            found = _drop_replaced(found, text)
        found.sort(key=lambda match: (match.start, -match.end))
        kept = list[Match]()
        for match in found:
            if not kept or match.start >= kept[-1].end:
                kept.append(match)
        return kept

    @cached_property
    def _compiled(self) -> list[Any]:
        options = _options(MAX_MEMORY)
        return [re2.compile(one.source, options) for one in self._patterns]


def _list_readings(text: str) -> list[str]:
    """Return a text, and the text with spaces for its escapes. A value behind `\\n` begins like
    a longer word otherwise. Both have the same length.
    """
    if "\\" not in text:
        return [text]
    spaced = ESCAPES.sub(lambda escape: " " * len(escape[0]), text)
    return [text] if spaced == text else [text, spaced]


def _drop_replaced(found: list[Match], text: str) -> list[Match]:
    """Return the matches that are no part of what `redact` has written."""
    spans = [match.span() for match in REPLACED.finditer(text)]
    starts = [start for start, _ in spans]

    def is_replaced(match: Match) -> bool:
        at = bisect_right(starts, match.start) - 1
        return at >= 0 and match.end <= spans[at][1]

    return [match for match in found if not is_replaced(match)]


def _find(pattern: NamedPattern, compiled: Any, text: str) -> Iterable[Match]:
    for number, match in enumerate(compiled.finditer(text)):
        group = pattern.value
        if group == ANY:
            group = next(at for at in range(1, match.re.groups + 1) if match[at] is not None)
        start, end = match.span(group)
        if number == MAX_FOUND:
            yield Match(pattern.name, start, len(text))
            return
        if start < end and (pattern.check is None or pattern.check(text[start:end])):
            yield Match(pattern.name, start, end)


def compile_find(find: Any) -> Finder:
    """Return the finder of `find`: the name of a set or of a pattern, a list of names, or
    `{"pattern": "an RE2 pattern"}`.

    Raises BadFind: a name is unknown, or RE2 refuses the pattern.
    """
    if isinstance(find, dict):
        return Finder([_check_pattern(find["pattern"])])
    names = [find] if isinstance(find, str) else find
    patterns = dict.fromkeys(one for name in names for one in _find_patterns(name))
    return Finder(list(patterns))


def _find_patterns(name: str) -> tuple[NamedPattern, ...]:
    if name in SETS:
        return SETS[name]
    if name in BY_NAME:
        return (BY_NAME[name],)
    known = [*SETS, *BY_NAME]
    near = get_close_matches(name[:100], known, 1)
    hint = f"did you mean {near[0]!r}?" if near else "docs/policy-patterns.md lists all"
    raise BadFind(f"unknown pattern {name[:100]!r} ({hint})")


def _check_pattern(source: str) -> NamedPattern:
    if len(source) > MAX_PATTERN:
        raise BadFind(f"the pattern has {len(source)} characters; at most {MAX_PATTERN}")
    try:
        compiled = re2.compile(source.encode(), _options(MAX_MEMORY // 16))
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise BadFind(
            f"RE2 refuses the pattern {source!r}: {text}; look-around and back-references are not "
            "available"
        ) from error
    if (steps := compiled.programsize) > MAX_STEPS:
        raise BadFind(
            f"the pattern is too large: it compiles to {steps} steps; at most {MAX_STEPS}"
        )
    if compiled.search(b"") is not None:
        raise BadFind("the pattern matches an empty text, so it would match everything")
    return NamedPattern(OWN, "", "", source)


def _options(max_memory: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = max_memory
    return options


def redact(text: str, matches: Sequence[Match], key: bytes) -> str:
    """Return the text with each value replaced by its name and a digest: `[email:1f0c93ab]`.

    Equal values have equal digests, so a reader still sees that they are the same. The digest is
    keyed: without the key of the store, a card or phone number cannot be found by trying all.
    """
    parts, end = list[str](), 0
    for match in matches:
        if match.start < end:
            continue
        value = text[match.start : match.end]
        parts += (text[end : match.start], f"[{match.name}:{make_digest(value, key)}]")
        end = match.end
    return "".join((*parts, text[end:]))


def make_digest(value: str, key: bytes) -> str:
    """Return the keyed digest of a value, DIGEST_DIGITS hexadecimal digits."""
    return hmac.digest(key, value.encode(errors="replace"), "sha256").hex()[:DIGEST_DIGITS]
