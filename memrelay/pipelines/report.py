"""Faults and their report: the first error of each place, and all warnings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import orjson

from memrelay.memory.validation import LIKELY, find_closest, pointer

JsonPath = tuple[str | int, ...]  # the keys and indexes that lead to a value
Severity = Literal["error", "warning"]

MAX_FAULTS = 200  # of each severity
MAX_QUOTED = 100  # characters
_PLAIN_KEY = re.compile(r"[\w$-]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a bundle. An error refuses the bundle, a warning does not.

    `pointer` is a JSON pointer (RFC 6901) like /agents/2/agent_from, or "" for the whole bundle.
    """

    pointer: str
    rule: str
    suggestion: str = ""
    severity: Severity = "error"

    def as_json(self) -> dict[str, str]:
        return {
            "pointer": self.pointer,
            "rule": self.rule,
            "suggestion": self.suggestion,
            "severity": self.severity,
        }

    def as_line(self, file: str = "") -> str:
        """Return `pipelines/x.json: agents[2].agent_from: <rule>; <suggestion>`."""
        text = f"{self.rule}; {self.suggestion}" if self.suggestion else self.rule
        return ": ".join(part for part in (file, _path(self.pointer), text) if part)


class Report:
    """Collects the faults of one check.

    `templates`, `pattern_steps` and `schema_bytes` are the templates and the sizes of the patterns
    and schemas so far.
    """

    def __init__(self) -> None:
        self._found: dict[Severity, list[Fault]] = {"error": [], "warning": []}
        self._invalid: set[str] = set()  # pointers with an error
        self.templates: set[str] = set()
        self.pattern_steps = 0
        self.schema_bytes = 0

    @property
    def errors(self) -> tuple[Fault, ...]:
        return tuple(sorted(self._found["error"], key=_order))

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """Return the warnings by place. At the place of an error a warning is only its effect."""
        warnings = [fault for fault in self._found["warning"] if fault.pointer not in self._invalid]
        return tuple(sorted(warnings, key=_order))

    def error(self, path: JsonPath, rule: str, suggestion: str = "") -> None:
        """Add an error. Further errors at the same place are ignored: they are its effects."""
        at = pointer(path)
        if at not in self._invalid:
            self._invalid.add(at)
            self._add(Fault(at, rule, suggestion))

    def warn(self, path: JsonPath, rule: str, suggestion: str = "") -> None:
        self._add(Fault(pointer(path), rule, suggestion, "warning"))

    def unknown(self, path: JsonPath, rule: str, word: str, known: Iterable[str]) -> None:
        """Add an error about an unknown word, with the closest known word or all known words."""
        if not self.full("error"):
            self.error(
                path, rule, did_you_mean(word, known) or f"known are {', '.join(sorted(known))}"
            )

    def full(self, severity: Severity) -> bool:
        """Return whether further faults are dropped. Callers then skip expensive suggestions."""
        return len(self._found[severity]) > MAX_FAULTS

    def _add(self, fault: Fault) -> None:
        found = self._found[fault.severity]
        if len(found) < MAX_FAULTS:
            found.append(fault)
        elif len(found) == MAX_FAULTS:
            rule = f"there are more than these {MAX_FAULTS}"
            found.append(Fault("", rule, "correct these first", fault.severity))


def quoted(text: str) -> str:
    """Return a text of the bundle in quotes, on one line, truncated to MAX_QUOTED characters."""
    short = text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."
    return orjson.dumps(short).decode()


def did_you_mean(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """Return a suggestion of the closest known word; "" if none is as close as `ratio`."""
    found = find_closest(word, known, ratio)
    return f"did you mean {quoted(found)}?" if found else ""


def split_pointer(pointer: str) -> tuple[str, ...]:
    """Return the keys and indexes in a JSON pointer."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])


def _path(at: str) -> str:
    return "".join(_step(part) for part in split_pointer(at)).removeprefix(".")


def _step(part: str) -> str:
    if part.isdecimal():
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{quoted(part)}]"


def _order(fault: Fault) -> list[str]:
    """Return a sort key: the whole bundle first, agents[2] before agents[10]."""
    return [part.zfill(8) if part.isdecimal() else part for part in fault.pointer.split("/")]
