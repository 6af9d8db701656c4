"""A fault: what is wrong with a bundle, where, and what to do about it."""

import re
from dataclasses import dataclass
from typing import Literal

import orjson

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
