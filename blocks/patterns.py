"""User patterns on RE2: linear time, whatever the pattern and the text. Many patterns are asked in one call.

RE2's Python layer costs 4 to 6 microseconds a match. Most patterns are plain commands, like `^/write\\s+(.*)`, or plain
beginnings, like `^/`: these are recognised here and answered by string operations that mean the same (a property test).
"""
import re
from collections.abc import Callable, Sequence

import re2

MAX_PATTERN = 2000             # characters
MAX_MEMORY = 4 << 20           # bytes that one compiled pattern may take
SPACES = "\t\n\f\r "           # what RE2 means by \s
_WORD = re.compile(r"/[0-9A-Za-z_]+").match
_COMMAND = re.compile(r"\^(/[0-9A-Za-z_]+)(\\b|\\b\\s\*\(\.\*\)|\\s\+\(\.\*\)|\\s\+\(\\S\+\))")
_PREFIX = re.compile(r"\^([/!#@0-9A-Za-z_]+)")
_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
_NON_SPACE = re.compile(r"[^\t\n\f\r ]+").match
_SPACE = frozenset(SPACES)
_WORD_CHAR = re.compile(r"[0-9A-Za-z_]").match
_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = MAX_MEMORY


class BadPattern(ValueError):
    """RE2 refuses the pattern, or a flag or group is wrong; the text says which."""


class Pattern:
    """One compiled pattern. `flags` are any of `i` (case), `s` (dot matches newline), `m` (^ and $ match at lines)."""

    def __init__(self, source: str, flags: str = "") -> None:
        """Raises BadPattern."""
        if len(source) > MAX_PATTERN:
            raise BadPattern(f"a pattern has at most {MAX_PATTERN} characters; this has {len(source)}")
        if _BYTE.search(source):
            raise BadPattern(r"\C matches a byte of a character and is not available; use `.`")
        if set(flags) - set("ism"):
            raise BadPattern(f"flags are any of i, s and m; this is {flags!r}")
        self.source = f"(?{flags}){source}" if flags else source
        try:
            self._compiled = re2.compile(self.source.encode(), _OPTIONS)
        except (re2.error, UnicodeEncodeError) as error:
            raise BadPattern(f"RE2 refuses the pattern {source!r}: {_said(error)}; "
                             "look-around and back-references are not available") from error
        command = _COMMAND.fullmatch(source) if not flags else None
        self.command, self._tail = (command[1], command[2]) if command else ("", "")
        prefix = _PREFIX.fullmatch(source) if not flags else None
        self._prefix = prefix[1] if prefix else ""
        # What `group` holds in the first match, "" where it took no part; None without a match: capture(text, group).
        self.capture = self._command_capture() if command else self._prefix_capture if prefix else self._search

    @property
    def groups(self) -> int:
        """How many groups the pattern has."""
        return int(self._compiled.groups)

    def group_number(self, group: int | str) -> int:
        """The number of a group given by number or name; raises BadPattern."""
        if isinstance(group, str) and not (group.isascii() and group.isdecimal()):
            names = {name.decode(): number for name, number in self._compiled.groupindex.items()}
            if group not in names:
                raise BadPattern(f"the pattern has no group named {group!r}; it has {sorted(names) or 'none with a name'}")
            return int(names[group])
        if not 0 <= int(group) <= self.groups:
            raise BadPattern(f"the pattern has no group {group}; it has {self.groups}")
        return int(group)

    def answers(self, text: str) -> bool:
        """Whether a plain command matches a text that begins with its word."""
        if self._tail == r"\s+(.*)":
            return text[len(self.command):len(self.command) + 1] in _SPACE
        return self.capture(text, 0) is not None

    def _search(self, text: str, group: int) -> str | None:
        found = self._compiled.search(text.encode())
        return None if found is None else (found[group] or b"").decode()

    def _prefix_capture(self, text: str, group: int) -> str | None:
        return self._prefix if text.startswith(self._prefix) else None

    def _command_capture(self) -> Callable[[str, int], str | None]:
        """The same as RE2 for a plain command. All tails want the word to end where the command does."""
        return {r"\b": self._bare, r"\b\s*(.*)": self._rest_if_any,
                r"\s+(.*)": self._rest_of_line, r"\s+(\S+)": self._first_word}[self._tail]

    def _bare(self, text: str, group: int) -> str | None:
        follows = text[len(self.command):len(self.command) + 1]
        return self.command if text.startswith(self.command) and not _WORD_CHAR(follows) else None

    def _rest_of_line(self, text: str, group: int) -> str | None:
        rest = text[len(self.command):]
        argument = rest.lstrip(SPACES)
        if len(argument) == len(rest) or not text.startswith(self.command):
            return None
        line = argument.partition("\n")[0]
        return line if group else text[:len(text) - len(argument)] + line

    def _rest_if_any(self, text: str, group: int) -> str | None:
        return self._bare(text, 0) and (self._rest_of_line(text, group) or ("" if group else self.command))

    def _first_word(self, text: str, group: int) -> str | None:
        rest = text[len(self.command):]
        argument = rest.lstrip(SPACES)
        found = _NON_SPACE(argument)
        if len(argument) == len(rest) or found is None or not text.startswith(self.command):
            return None
        return found[0] if group else text[:len(text) - len(argument)] + found[0]


def _said(error: Exception) -> str:
    return error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)


class PatternSet:
    """Many patterns, asked at once: commands by their word, all others in one pass of RE2 over the text."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        """The patterns are known by their places in the sequence."""
        self._commands: dict[str, list[int]] = {}
        self._patterns, self._others = patterns, [at for at, pattern in enumerate(patterns) if not pattern.command]
        for at, pattern in enumerate(patterns):
            if pattern.command:
                self._commands.setdefault(pattern.command, []).append(at)
        self._set = self._compile() if len(self._others) > 1 else None

    def _compile(self) -> re2.Set | None:
        """One automaton of all the others; None where they are too large together, which are then asked one by one."""
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

    def matching(self, text: str) -> list[int]:
        """The places of the patterns that match, ascending."""
        found: list[int] = []
        if self._commands and text[:1] == "/" and (word := _WORD(text)) is not None:
            for at in self._commands.get(word[0], ()):
                if self._patterns[at].answers(text):
                    found.append(at)
        if self._set is not None:
            found += [self._others[at] for at in self._set.Match(text.encode()) or ()]
        elif self._others:
            found += [at for at in self._others if self._patterns[at].capture(text, 0) is not None]
        return sorted(found) if len(found) > 1 else found
