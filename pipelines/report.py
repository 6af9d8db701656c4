"""The report of one check: it gathers every fault, each place's first error and all warnings."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import orjson

from memrelay.memory.validation import LIKELY, closest

# A fault: what is wrong with a bundle, where, and what to do about it.

Place = tuple[str | int, ...]  # the keys and indices that lead to a value
Severity = Literal["error", "warning"]

_PLAIN_KEY = re.compile(r"[\w$-]+")


@dataclass(frozen=True, slots=True)
class Fault:
    """An error refuses the bundle, a warning does not."""

    pointer: str  # a JSON pointer (RFC 6901), like /agents/2/agent_from; "" for the whole bundle
    rule: str
    suggestion: str = ""
    severity: Severity = "error"

    def as_json(self) -> dict[str, str]:
        """For programs."""
        return {
            "pointer": self.pointer,
            "rule": self.rule,
            "suggestion": self.suggestion,
            "severity": self.severity,
        }

    def as_line(self, file: str = "") -> str:
        """For people: `pipelines/x.json: agents[2].agent_from: <rule>; <suggestion>`."""
        told = f"{self.rule}; {self.suggestion}" if self.suggestion else self.rule
        return ": ".join(part for part in (file, _path(self.pointer), told) if part)


def pointer(place: Place) -> str:
    """The JSON pointer to a place."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)


def quoted(text: str) -> str:
    """A text of the bundle's in quotes, on one line, cut where it is long."""
    return orjson.dumps(text if len(text) <= 100 else text[:100] + "...").decode()


def _path(at: str) -> str:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in at.split("/")[1:]]
    return "".join(_step(part) for part in parts).removeprefix(".")


def _step(part: str) -> str:
    if part.isdecimal():
        return f"[{part}]"
    return f".{part}" if _PLAIN_KEY.fullmatch(part) else f"[{quoted(part)}]"


# Did-you-mean, as a fault tells it.


def did_you_mean(word: str, known: Iterable[str], ratio: float = LIKELY) -> str:
    """The question as a suggestion; "" where nothing comes as near as `ratio`."""
    found = closest(word, known, ratio)
    return f"did you mean {quoted(found)}?" if found else ""


MOST = 200  # faults of a kind; a file of noise is not worth more


class Report:
    """Handed from check to check."""

    def __init__(self) -> None:
        """An empty one."""
        self._found: dict[Severity, list[Fault]] = {"error": [], "warning": []}
        self._wrong: set[str] = set()
        self.templates: set[str] = set()  # those that were looked at

    @property
    def errors(self) -> tuple[Fault, ...]:
        """What refuses the bundle, by place."""
        return tuple(sorted(self._found["error"], key=_order))

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is allowed, but surely not meant, by place. Where there is an error it only follows
        from that."""
        return tuple(
            sorted(
                (fault for fault in self._found["warning"] if fault.pointer not in self._wrong),
                key=_order,
            )
        )

    def error(self, place: Place, rule: str, suggestion: str = "") -> None:
        """Adds an error. The first one of a place hides the next, which only follow from it."""
        at = pointer(place)
        if at not in self._wrong:
            self._wrong.add(at)
            self._add(Fault(at, rule, suggestion))

    def warn(self, place: Place, rule: str, suggestion: str = "") -> None:
        """Adds a warning."""
        self._add(Fault(pointer(place), rule, suggestion, "warning"))

    def unknown(self, place: Place, rule: str, word: str, known: Iterable[str]) -> None:
        """Adds an error about a word that is none of the `known`, with a did-you-mean, else with
        all of them."""
        if not self.full("error"):
            self.error(
                place, rule, did_you_mean(word, known) or f"known are {', '.join(sorted(known))}"
            )

    def full(self, severity: Severity) -> bool:
        """Is there no room for more? Then guessing what was meant is not worth its time either."""
        return len(self._found[severity]) > MOST

    def _add(self, fault: Fault) -> None:
        found = self._found[fault.severity]
        if len(found) < MOST:
            found.append(fault)
        elif len(found) == MOST:
            found.append(
                Fault("", f"there are more than these {MOST}", "mend them first", fault.severity)
            )


def _order(fault: Fault) -> list[str]:
    """The whole bundle first, agents[2] before agents[10]."""
    return [part.zfill(8) if part.isdecimal() else part for part in fault.pointer.split("/")]
