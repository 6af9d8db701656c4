"""What one caller has done to a store, in plain Python: the lives of its records, its memories, and
what reads must answer.

It knows none of our code. Every caller has a model of its own, of guids and memories that no other
touches.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

ENTRY = "entry"
State = dict[str, Any]  # a record's fields but for its times and version
Act = tuple[str, str, str | None]  # what ended a state, who, why


@dataclass
class Life:
    """A record's states, the first one number 1; the last is as it is now, None where it is
    deleted."""

    guid: str
    states: list[State | None]
    arrived: int  # its place in lists, among those of its caller
    acts: list[Act] = field(default_factory=list)  # what ended each but the last
    deleted: int = 0  # its place in lists of what was deleted
    version: str = ""  # as it was told last; "" where that is not known
    confirmations: int = 0

    @property
    def now(self) -> State | None:
        """As it is; None where it is deleted."""
        return self.states[-1]

    @property
    def last(self) -> State:
        """As it is, or was when it was deleted."""
        found = self.states[-1] or self.states[-2]
        assert found is not None, "two deletions in a row"
        return found

    @property
    def text(self) -> str:
        """What it says, or said last."""
        return str(self.last["content"])

    def restorable(self) -> list[int]:
        """The numbers of its states in which it was there."""
        return [number for number, state in enumerate(self.states, 1) if state is not None]


class Model:
    """Beside the product dictionaries, from which nothing is ever taken."""

    def __init__(self) -> None:
        """Nothing was done."""
        self.lives: dict[str, Life] = {}
        self.memories: dict[str, State] = {}  # that are there, by id
        self.fleeting: dict[
            str, tuple[State, int]
        ] = {}  # records that nobody touches, and when they expire (Unix ms)
        self.written: Counter[str] = (
            Counter()
        )  # how often each fact was written to the memory that all share
        self.tokens: list[str] = []  # that were added to the journal, which all share
        self.last_token = ""
        self._moment = 0

    def _next(self) -> int:
        self._moment += 1
        return self._moment

    def there(self, fits: Callable[[State], bool] = lambda state: True) -> list[Life]:
        """The records that there are, in order of arrival."""
        found = [life for life in self.lives.values() if life.now is not None and fits(life.now)]
        return sorted(found, key=lambda life: life.arrived)

    def deleted(self) -> list[Life]:
        """What can be brought back, in the order of its deletion."""
        return sorted(
            (life for life in self.lives.values() if life.now is None),
            key=lambda life: life.deleted,
        )

    def create(self, guid: str, state: State) -> Life:
        """A new record."""
        assert guid not in self.lives, f"the guid {guid} was given twice"
        self.lives[guid] = life = Life(guid, [state], self._next())
        return life

    def change(
        self, life: Life, what: str, actor: str, reason: str | None = None, **values: Any
    ) -> None:
        """Other values; nothing where they are those that it has, unless it is an addition."""
        assert life.now is not None
        after = life.now | values
        if after == life.now and what == "update":
            return
        self._end(life, (what, actor, reason), after)

    def delete(self, life: Life, actor: str, reason: str | None = None) -> None:
        """It is there no more."""
        self._end(life, ("delete", actor, reason), None)
        life.deleted = self._next()

    def restore(
        self, life: Life, number: int | None, actor: str, reason: str | None = None
    ) -> None:
        """As it was; when it expires stays. What was deleted comes after all others."""
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
            life.confirmations = 0  # which are of an entry as long as it is one

    def entries(self, memory: str) -> list[Life]:
        """Of a memory, in order of arrival."""
        return self.there(lambda state: (state["kind"], state["scope"]) == (ENTRY, memory))

    def same(self, memory: str, text: str) -> Life | None:
        """The oldest entry that says this, as a whole or in one of its lines."""
        return next((life for life in self.entries(memory) if plain(text) in says(life.text)), None)

    def delete_memory(self, ident: str, actor: str) -> None:
        """With what is in it."""
        for life in self.entries(ident):
            self.delete(life, actor)
        del self.memories[ident]


def plain(text: str) -> str:
    """What two texts have in common that count as the same."""
    return " ".join(text.casefold().split()).removesuffix(".").rstrip()


def lines(text: str) -> Iterator[str]:
    """Those that say something."""
    return (line for line in text.split("\n") if plain(line))


def says(text: str) -> set[str]:
    """An entry as a whole, and each of its lines."""
    return {plain(text), *map(plain, lines(text))}


def added(old: str, new: str) -> str:
    """An entry to which a text was added: the lines that it has not stand below."""
    known = set(map(plain, lines(old)))
    return "\n".join([old, *[line for line in lines(new) if plain(line) not in known]])
