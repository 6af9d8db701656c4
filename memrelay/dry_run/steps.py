"""The steps of a try: what each call of a block received, published, stored and found."""

from dataclasses import dataclass, field
from typing import Any

# Characters of a text in the report, and items of a list of one step.
MAX_CHARACTERS, MAX_ITEMS = 10_000, 50


@dataclass(slots=True, eq=False)
class Step:
    """One call of a block.

    `parent` is the step whose message it received, None for the first. `output` are messages,
    `stored` changes of records, `found` records that it read, and `sends` what it would have sent
    outside. `fault` is why it failed. `not_run` is why its block was not called, or not to its
    end. `input_key` is the input of the worker that made it.
    """

    id: int
    parent: int | None
    agent: str
    block: str
    swarm: str
    sender: str
    input: str
    input_key: str
    output: list[dict[str, str]] = field(default_factory=list)
    stored: list[dict[str, str]] = field(default_factory=list)
    found: list[dict[str, str]] = field(default_factory=list)
    sends: list[dict[str, str]] = field(default_factory=list)
    fault: str = ""
    not_run: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the step for the report, with long texts cut."""
        return {
            "id": self.id,
            "parent": self.parent,
            "agent": self.agent,
            "block": self.block,
            "swarm": self.swarm,
            "from": self.sender,
            "input": cut(self.input),
            "output": _cut_all(self.output),
            "stored": _cut_all(self.stored),
            "found": _cut_all(self.found),
            "sends": _cut_all(self.sends),
            "fault": cut(self.fault),
            "not_run": self.not_run,
        }


def cut(text: str) -> str:
    """Return a text of at most about MAX_CHARACTERS."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}… ({len(text)} characters)"


def _cut_all(items: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: cut(text) for name, text in one.items()} for one in items[:MAX_ITEMS]]
