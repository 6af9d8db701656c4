"""User patterns on RE2: linear time, whatever the pattern and the text. Many patterns are asked in
one call.

RE2's Python layer costs 4 to 6 microseconds a match. Most patterns are plain commands, like
`^/write\\s+(.*)`, or plain
beginnings, like `^/`: these are recognised here and answered by cheaper ways that mean the same (a
property test).
"""

import re
from collections.abc import Sequence
from typing import Annotated

import re2
from pydantic import Field

from memrelay.blocks.errors import BadArgument

MAX_PATTERN = 2000  # characters
MAX_MEMORY = 4 << 20  # bytes that one compiled pattern may take
# that it is compiled to: at worst each byte of a text costs a nanosecond for each of them
MAX_STEPS = 5_000
SPACES = "\t\n\f\r "  # what RE2 means by \s
_COMMAND = re.compile(r"\^(/[0-9A-Za-z_]+)(\\b|\\b\\s\*\(\.\*\)|\\s\+\(\.\*\)|\\s\+\(\\S\+\))")
_OPENING = re.compile(
    rf"/[0-9A-Za-z_]+[{SPACES}]?"
).match  # a command's word, and the space that ends it
# of a command -> the same for Python's engine, which is linear in these and costs 1 microsecond
_TAILS = {
    r"\b": r"(?![0-9A-Za-z_])",
    r"\b\s*(.*)": rf"(?![0-9A-Za-z_])[{SPACES}]*([^\n]*)",
    r"\s+(.*)": rf"[{SPACES}]+([^\n]*)",
    r"\s+(\S+)": rf"[{SPACES}]+([^{SPACES}]+)",
}
_PREFIX = re.compile(r"\^([/!#@0-9A-Za-z_]+)")
_DELIMITED = re.compile(r"/(\^.*|.*\$)/[a-z]*", re.DOTALL)
_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY
Source = Annotated[
    str, Field(json_schema_extra={"maxLength": MAX_PATTERN})
]  # as arguments of blocks
Flags = Annotated[str, Field(json_schema_extra={"pattern": "^[ism]*$"})]


def doubts_about(source: str) -> list[str]:
    """What is a pattern, but surely not the one that was meant."""
    rule = "the pattern stands between slashes, as in JavaScript: they are looked for too; leave them out, and set `flags`"
    return [rule] if _DELIMITED.fullmatch(source) else []


class BadPattern(BadArgument):
    """RE2 refuses the pattern, or a flag or group is wrong; the text says which."""

    def __init__(self, rule: str, argument: str = "pattern") -> None:
        """`argument` is `pattern`, `flags` or `group`."""
        super().__init__(rule, argument)


class Pattern:
    """One compiled pattern. `flags` are any of `i` (case), `s` (dot matches newline), `m` (^ and $
    match at lines)."""

    def __init__(self, source: str, flags: str = "") -> None:
        """Raises BadPattern."""
        if len(source) > MAX_PATTERN:
            raise BadPattern(
                f"a pattern has at most {MAX_PATTERN} characters; this has {len(source)}"
            )
        if _BYTE.search(source):
            raise BadPattern(r"\C matches a byte of a character and is not available; use `.`")
        if set(flags) - set("ism"):
            raise BadPattern(f"flags are any of i, s and m; this is {flags!r}", "flags")
        self.source = f"(?{flags}){source}" if flags else source
        try:
            self._compiled = re2.compile(self.source.encode(), _OPTIONS)
        except (re2.error, UnicodeEncodeError) as error:
            raise BadPattern(
                f"RE2 refuses the pattern {source!r}: {_said(error)}; "
                "look-around and back-references are not available"
            ) from error
        if (steps := self._compiled.programsize) > MAX_STEPS:
            raise BadPattern(
                f"the pattern is too large: it compiles to {steps} steps, and {MAX_STEPS} are allowed; "
                r"+ and * cost less than counted repetitions, and \w less than \pL"
            )
        command = _COMMAND.fullmatch(source) if not flags else None
        word, tail = command.groups() if command else ("", "")
        self.openings = (
            _openings(word, tail) if command else []
        )  # how texts that match a command begin
        self.certain = tail != r"\s+(\S+)"  # whether all that begin so match
        prefix = _PREFIX.fullmatch(source) if not flags else None
        self._prefix = prefix[1] if prefix else ""
        # What `group` holds in the first match, "" where it took no part; None without a match:
        # capture(text, group).
        self._match = re.compile(word + _TAILS.get(tail, "")).match
        self.capture = (
            self._command_capture if command else self._prefix_capture if prefix else self._search
        )

    @property
    def groups(self) -> int:
        """How many groups the pattern has."""
        return int(self._compiled.groups)

    def group_number(self, group: int | str) -> int:
        """The number of a group given by number or name; raises BadPattern."""
        if isinstance(group, str) and not (group.isascii() and group.isdecimal()):
            names = {name.decode(): number for name, number in self._compiled.groupindex.items()}
            if group not in names:
                known = sorted(names) or "none with a name"
                raise BadPattern(
                    f"the pattern has no group named {group!r}; it has {known}", "group"
                )
            return int(names[group])
        if not 0 <= int(group) <= self.groups:
            raise BadPattern(f"the pattern has no group {group}; it has {self.groups}", "group")
        return int(group)

    def _search(self, text: str, group: int) -> str | None:
        found = self._compiled.search(text.encode())
        return None if found is None else (found[group] or b"").decode()

    def _prefix_capture(self, text: str, group: int) -> str | None:
        return self._prefix if text.startswith(self._prefix) else None

    def _command_capture(self, text: str, group: int) -> str | None:
        found = self._match(text)
        return None if found is None else found[group]


def _openings(word: str, tail: str) -> list[str]:
    """How a text begins that a plain command matches: its word, and the space that follows, which
    some ask for."""
    spaced = [word + space for space in SPACES]
    return spaced if tail.startswith(r"\s") else [word, *spaced]


def _said(error: Exception) -> str:
    return (
        error.args[0].decode(errors="replace")
        if error.args and isinstance(error.args[0], bytes)
        else str(error)
    )


class PatternSet:
    """Many patterns, asked at once: commands by their word, all others in one pass of RE2 over the
    text."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """The patterns are known by their places in the sequence."""
        self._commands: dict[str, list[int]] = {}  # opening -> the places of commands
        self._patterns, self._others = (
            patterns,
            [at for at, pattern in enumerate(patterns) if not pattern.openings],
        )
        self._uncertain = {
            at for at, pattern in enumerate(patterns) if pattern.openings and not pattern.certain
        }
        for at, pattern in enumerate(patterns):
            for opening in pattern.openings:
                self._commands.setdefault(opening, []).append(at)
        self._set = self._compile() if len(self._others) > 1 else None

    def _compile(self) -> re2.Set | None:
        """One automaton of all the others; None where they are too large together, which are then
        asked one by one."""
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
        """The places of the patterns that match, ascending."""
        opening = _OPENING(text)
        found: Sequence[int] = () if opening is None else self._commands.get(opening[0], ())
        if self._uncertain and not self._uncertain.isdisjoint(found):
            found = [at for at in found if at not in self._uncertain or self._matches(at, text)]
        if not self._others:
            return found
        if self._set is not None:
            others = [self._others[at] for at in self._set.Match(text.encode()) or ()]
        else:
            others = [at for at in self._others if self._matches(at, text)]
        return sorted([*found, *others])

    def _matches(self, at: int, text: str) -> bool:
        return self._patterns[at].capture(text, 0) is not None
