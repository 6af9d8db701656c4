"""User patterns on RE2: matching takes linear time for any pattern and text.

RE2's Python layer costs 4 to 6 microseconds per match. Most patterns are commands, like
`^/write\\s+(.*)`, or prefixes, like `^/`. These are recognized here and matched in a cheaper way
with the same result (a property test).
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import re2
from pydantic import Field

from memrelay.blocks.errors import BadArgument
from memrelay.memory.validation import MAX_DIGITS, parse_number

MAX_PATTERN = 2000  # characters
MAX_MEMORY = 4 << 20  # bytes of one compiled pattern
# Size of the compiled program. In the worst case each step costs 1 ns per byte of text.
MAX_STEPS = 5_000
# The same for all patterns of a bundle together. Compiling a step takes 3 us.
MAX_STEPS_TOGETHER = 200_000
SPACES = "\t\n\f\r "  # what \s matches in RE2
_COMMAND = re.compile(r"\^(/[0-9A-Za-z_]+)(\\b|\\b\\s\*\(\.\*\)|\\s\+\(\.\*\)|\\s\+\(\\S\+\))")
# A command's word, with the space that ends it.
_OPENING = re.compile(rf"/[0-9A-Za-z_]+[{SPACES}]?").match
# Tail of a command -> the same for Python's engine, which is linear here and costs 1 microsecond.
_TAILS = {
    r"\b": r"(?![0-9A-Za-z_])",
    r"\b\s*(.*)": rf"(?![0-9A-Za-z_])[{SPACES}]*([^\n]*)",
    r"\s+(.*)": rf"[{SPACES}]+([^\n]*)",
    r"\s+(\S+)": rf"[{SPACES}]+([^{SPACES}]+)",
}
_PREFIX = re.compile(r"\^([/!#@0-9A-Za-z_]+)")
_DELIMITED = re.compile(r"/(\^.*|.*\$)/[a-z]*", re.DOTALL)
_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
# Look-around and back-references.
_MISSING = re.compile(r"\(\?(<?[=!]|>|P=)|\\[1-9k]")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY
# Types of block arguments.
Source = Annotated[str, Field(json_schema_extra={"maxLength": MAX_PATTERN, "format": "regex"})]
Flags = Annotated[str, Field(json_schema_extra={"pattern": "^[ism]*$"})]


def pattern_warnings(source: str) -> list[str]:
    """Return a warning about a valid pattern that is probably a mistake."""
    rule = (
        "the pattern is between slashes, as in JavaScript, and the slashes are part of it: remove "
        "them, and set `flags`"
    )
    return [rule] if _DELIMITED.fullmatch(source) else []


class BadPattern(BadArgument):
    """RE2 refuses the pattern, or a flag or group is invalid.

    `argument` is `pattern`, `flags` or `group`.
    """

    def __init__(self, rule: str, argument: str = "pattern") -> None:
        super().__init__(rule, argument)


class Match(NamedTuple):
    """The first match of a pattern. `groups` has the texts by number and by name, "0" for all of
    it; a group that is not part of the match is left out. `spans` has the start and the end of the
    match and of each group in characters, [-1, -1] for a group that is not part of it.
    """

    groups: dict[str, str]
    spans: list[list[int]]


class Pattern:
    """One compiled pattern. Raises BadPattern.

    `flags` are any of `i` (ignore case), `s` (a dot matches line ends) and `m` (^ and $ match at
    line ends).

    `capture(text, group)` returns the text of the group in the first match: "" if the group is not
    part of the match, None without a match. `openings` lists the beginnings of matching texts, for
    a command. `certain` is true if every text with such a beginning matches.
    """

    def __init__(self, source: str, flags: str = "") -> None:
        _check_source(source, flags)
        self.source = f"(?{flags}){source}" if flags else source
        self._compiled = _compile(source, self.source)
        command = _COMMAND.fullmatch(source) if not flags else None
        word, tail = command.groups() if command else ("", "")
        self.openings = _openings(word, tail) if command else []
        self.certain = tail != r"\s+(\S+)"
        prefix = _PREFIX.fullmatch(source) if not flags else None
        self._prefix = prefix[1] if prefix else ""
        self._match = re.compile(word + _TAILS.get(tail, "")).match
        self.capture = (
            self._command_capture if command else self._prefix_capture if prefix else self._search
        )

    @property
    def steps(self) -> int:
        """Return the size of the compiled program."""
        return int(self._compiled.programsize)

    @property
    def groups(self) -> int:
        return int(self._compiled.groups)

    def group_number(self, group: int | str) -> int:
        """Return the number of a group that is given by number or name. Raises BadPattern."""
        if isinstance(group, str) and not (group.isascii() and group.isdecimal()):
            names = {name.decode(): number for name, number in self._compiled.groupindex.items()}
            if group not in names:
                known = ", ".join(sorted(names)) or "no named groups"
                raise BadPattern(
                    f"the pattern has no group named {group!r}; it has {known}", "group"
                )
            return int(names[group])
        number = parse_number(str(group), -1)
        if not 0 <= number <= self.groups:
            shown = str(group)[:MAX_DIGITS]
            raise BadPattern(f"the pattern has no group {shown}; it has {self.groups}", "group")
        return number

    def search(self, text: str) -> Match | None:
        """Return the first match with all its groups, for people who write a pattern."""
        data = text.encode(errors="replace")
        match = self._compiled.search(data)
        if match is None:
            return None
        bounds = [match.span(number) for number in range(self.groups + 1)]
        names = {number: name.decode() for name, number in self._compiled.groupindex.items()}
        groups: dict[str, str] = {}
        spans = []
        for number, (start, end) in enumerate(bounds):
            if start < 0:
                spans.append([-1, -1])
                continue
            value = data[start:end].decode()
            groups[str(number)] = value
            if number in names:
                groups[names[number]] = value
            begin = len(data[:start].decode())
            spans.append([begin, begin + len(value)])
        return Match(groups, spans)

    def _search(self, text: str, group: int) -> str | None:
        match = self._compiled.search(text.encode())
        return None if match is None else (match[group] or b"").decode()

    def _prefix_capture(self, text: str, group: int) -> str | None:
        return self._prefix if text.startswith(self._prefix) else None

    def _command_capture(self, text: str, group: int) -> str | None:
        match = self._match(text)
        return None if match is None else match[group]


def _check_source(source: str, flags: str) -> None:
    if len(source) > MAX_PATTERN:
        raise BadPattern(f"the pattern has {len(source)} characters; at most {MAX_PATTERN}")
    if _BYTE.search(source):
        raise BadPattern(r"\C matches a byte of a character and is not available; use `.`")
    if set(flags) - set("ism"):
        raise BadPattern(f"flags are any of i, s and m, not {flags!r}", "flags")


def _compile(source: str, with_flags: str) -> Any:
    try:
        compiled = re2.compile(with_flags.encode(), _OPTIONS)
    except (re2.error, UnicodeEncodeError) as error:
        shown = f"'{source}'" if source.isprintable() else repr(source)
        hint = "; look-around and back-references are not available" * bool(_MISSING.search(source))
        raise BadPattern(f"RE2 refuses the pattern {shown}: {_reason(error)}{hint}") from error
    if (steps := compiled.programsize) > MAX_STEPS:
        raise BadPattern(
            f"the pattern is too large: it compiles to {steps} steps; at most {MAX_STEPS}. "
            r"+ and * cost less than counted repetitions, and \w less than \pL"
        )
    return compiled


def _openings(word: str, tail: str) -> list[str]:
    """Return the beginnings of texts that match a command: its word, alone or with a space."""
    spaced = [word + space for space in SPACES]
    return spaced if tail.startswith(r"\s") else [word, *spaced]


def _reason(error: Exception) -> str:
    if error.args and isinstance(error.args[0], bytes):
        return error.args[0].decode(errors="replace")
    return str(error)


class PatternSet:
    """Many patterns, matched together: commands by their word, all others in one pass of RE2.

    A pattern is identified by its index in the sequence.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._commands: dict[str, list[int]] = {}  # opening -> indexes of commands
        self._patterns = patterns
        self._others = [at for at, pattern in enumerate(patterns) if not pattern.openings]
        self._uncertain = {
            at for at, pattern in enumerate(patterns) if pattern.openings and not pattern.certain
        }
        for at, pattern in enumerate(patterns):
            for opening in pattern.openings:
                self._commands.setdefault(opening, []).append(at)
        self._set = self._compile() if len(self._others) > 1 else None

    def _compile(self) -> re2.Set | None:
        """Return one automaton for the other patterns; None if it would be too large."""
        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_MEMORY * min(16, 2 + len(self._others))
        together = re2.Set.SearchSet(options)
        try:
            for at in self._others:
                together.Add(self._patterns[at].source.encode())
            together.Compile()
        except re2.error:
            return None
        return together

    def matching(self, text: str) -> Sequence[int]:
        """Return the indexes of the patterns that match, ascending."""
        opening = _OPENING(text)
        candidates: Sequence[int] = () if opening is None else self._commands.get(opening[0], ())
        if self._uncertain and not self._uncertain.isdisjoint(candidates):
            candidates = [
                at for at in candidates if at not in self._uncertain or self._matches(at, text)
            ]
        if not self._others:
            return candidates
        if self._set is not None:
            others = [self._others[at] for at in self._set.Match(text.encode()) or ()]
        else:
            others = [at for at in self._others if self._matches(at, text)]
        return sorted([*candidates, *others])

    def _matches(self, at: int, text: str) -> bool:
        return self._patterns[at].capture(text, 0) is not None
