"""A model of one caller's changes in plain Python: its records, its memories, and the expected
answers.

It uses none of Memrelay's code. Each caller has its own model of GUIDs and memories that no
other caller changes.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

ENTRY = "entry"
WORDS = [
    "apple",
    "bridge",
    "candle",
    "dragon",
    "engine",
    "forest",
    "guitar",
    "hammer",
    "island",
    "jacket",
    "kettle",
    "lantern",
    "mirror",
    "needle",
    "orchid",
    "pencil",
    "quartz",
    "rocket",
    "saddle",
    "temple",
    "umbrella",
    "violin",
    "window",
    "yogurt",
]
State = dict[str, Any]  # a record's fields without times and version
Act = tuple[str, str, str | None]  # what ended a state, the actor, the reason


@dataclass
class Life:
    """The states of a record, numbered from 1. The last one is current; None if the record is
    deleted.
    """

    guid: str
    states: list[State | None]
    arrived: int  # its position in lists, among those of its caller
    acts: list[Act] = field(default_factory=list)  # what ended each state except the last
    deleted: int = 0  # its position in lists of deleted records
    version: str = ""  # the last known version; "" if it is unknown
    confirmations: int = 0

    @property
    def now(self) -> State | None:
        """Return the current state; None if it is deleted."""
        return self.states[-1]

    @property
    def last(self) -> State:
        """Return the current state, or the one before the deletion."""
        found = self.states[-1] or self.states[-2]
        assert found is not None, "two deletions in a row"
        return found

    @property
    def text(self) -> str:
        """Return the current or last text."""
        return str(self.last["content"])

    def restorable(self) -> list[int]:
        """Return the numbers of the states in which it existed."""
        return [number for number, state in enumerate(self.states, 1) if state is not None]


class Model:
    """The dictionaries of expected data; nothing is removed from them."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.memories: dict[str, State] = {}  # existing memories by ID
        self.fleeting: dict[
            str, tuple[State, int]
        ] = {}  # untouched records and their expiry, Unix ms
        self.written: Counter[str] = (
            Counter()
        )  # how often each fact was written to the shared memory
        self.tokens: list[str] = []  # additions to the shared journal
        self.last_token = ""
        self._moment = 0

    def _next(self) -> int:
        self._moment += 1
        return self._moment

    def there(self, fits: Callable[[State], bool] = lambda state: True) -> list[Life]:
        """Return the existing records in order of arrival."""
        found = [life for life in self.lives.values() if life.now is not None and fits(life.now)]
        return sorted(found, key=lambda life: life.arrived)

    def deleted(self) -> list[Life]:
        """Return the restorable records in order of deletion."""
        return sorted(
            (life for life in self.lives.values() if life.now is None),
            key=lambda life: life.deleted,
        )

    def create(self, guid: str, state: State) -> Life:
        """Add a record."""
        assert guid not in self.lives, f"the guid {guid} was given twice"
        self.lives[guid] = life = Life(guid, [state], self._next())
        return life

    def change(
        self, life: Life, what: str, actor: str, reason: str | None = None, **values: Any
    ) -> None:
        """Change values; equal values change nothing, except additions."""
        assert life.now is not None
        after = life.now | values
        if after == life.now and what == "update":
            return
        self._end(life, (what, actor, reason), after)

    def delete(self, life: Life, actor: str, reason: str | None = None) -> None:
        """Delete a record."""
        self._end(life, ("delete", actor, reason), None)
        life.deleted = self._next()

    def restore(
        self, life: Life, number: int | None, actor: str, reason: str | None = None
    ) -> None:
        """Restore a record with its expiry. A restored record comes after all others."""
        wanted = life.last if number is None else life.states[number - 1]
        assert wanted is not None
        if life.now is None:
            life.arrived = self._next()
        elif number == len(life.states):
            return
        self._end(
            life, ("restore", actor, reason), wanted | {"expires_at": life.last["expires_at"]}
        )

    def _end(self, life: Life, act: Act, after: State | None) -> None:
        life.acts.append(act)
        life.states.append(after)
        life.version = ""
        if after is None or after["kind"] != ENTRY:
            life.confirmations = 0  # an entry loses them when it becomes a plain record

    def entries(self, memory: str) -> list[Life]:
        """Return the entries of a memory in order of arrival."""
        return self.there(lambda state: (state["kind"], state["scope"]) == (ENTRY, memory))

    def same(self, memory: str, text: str) -> Life | None:
        """Return the oldest entry that equals the text, as a whole or in one line."""
        return next((life for life in self.entries(memory) if plain(text) in says(life.text)), None)

    def delete_memory(self, ident: str, actor: str) -> None:
        """Delete a memory and its entries."""
        for life in self.entries(ident):
            self.delete(life, actor)
        del self.memories[ident]


def plain(text: str) -> str:
    """Return the form in which equal texts agree."""
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def lines(text: str) -> Iterator[str]:
    """Return the lines that are not empty."""
    return (line for line in text.split("\n") if plain(line))


def says(text: str) -> set[str]:
    """Return an entry as a whole, and each of its lines."""
    return {plain(text), *map(plain, lines(text))}


def added(old: str, new: str) -> str:
    """Return an entry with a text added: its new lines are placed below."""
    known = set(map(plain, lines(old)))
    return "\n".join([old, *[line for line in lines(new) if plain(line) not in known]])


def guid_of(told: State) -> str:
    """Return the GUID of an entry's record."""
    digits = told["id"].rpartition("_")[2]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def moment(ms: int) -> str:
    """Return RFC 3339 in UTC, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"
