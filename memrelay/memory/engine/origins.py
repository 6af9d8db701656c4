"""Origins: who or what made each state of a record, and how it came in.

A state has the number of its origin, so origins that repeat cost one integer.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import apsw

INSERT = (
    "INSERT OR IGNORE INTO origins(actor, sender, profile, verdict, key, agent, model) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)
FIND = (
    "SELECT id FROM origins WHERE (actor, sender, profile, verdict, key, agent, model) = "
    "(?, ?, ?, ?, ?, ?, ?)"
)
GET = "SELECT actor, sender, profile, verdict, key, agent, model FROM origins WHERE id = ?"
# Longer names are cut.
MAX_CHARACTERS = 256
# Origins whose numbers are kept in memory.
MAX_KNOWN = 4096
IMPORT, TURN, UNDO = "import:", "turn:", "undo:"
REPLACED = "replaced"
AdmitTexts = Callable[[str, Sequence[str], Sequence[str]], Sequence[str]]


class Origin(NamedTuple):
    """The writer of a state. Values that do not apply or are not known are ""."""

    # The name under which the write was made: that of an agent, a key or a program.
    actor: str
    # The `from` of the message.
    sender: str = ""
    # The way in: `webhook:github`, `rest`, `mcp`, `cli`, `python`, `import:<label>`, `turn:<id>`,
    # `undo:<label>`.
    # A message on a swarm has none.
    profile: str = ""
    # Of the sender's signature: `verified`, or `unverified` if none was made or asked for. REPLACED
    # for a record that an import has put in the place of another one.
    verdict: str = ""
    # The id of the API key, or `jwt:` and the subject of a JWT.
    key: str = ""
    # The alias of the agent.
    agent: str = ""
    # The model that asked for the write.
    model: str = ""


class OriginTable:
    """The origins of a store, and the one of the following changes, inside its open transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # The values of Origin, by which an origin is found without making one.
        self.known: dict[tuple[str, ...], int] = {}
        self.current: tuple[str, ...] = Origin("")
        # Its number, 0 before the first change.
        self.number = 0
        # The id of the input that makes the changes, "" if there is none.
        self.input_id = ""
        # The hooks of the store's write path that look at texts.
        self.admit_texts: tuple[AdmitTexts, ...] = ()

    def reset(self) -> None:
        """Forget the numbers after a rollback."""
        self.known.clear()
        self.number = 0

    def add(self) -> int:
        """Return the number of the current origin, which gets one with its first change. Raises
        PolicyStop.
        """
        if not self.number:
            values = tuple(value[:MAX_CHARACTERS] for value in self.current)
            for admit in self.admit_texts:
                values = tuple(admit("origin", values, ()))
            self._connection.execute(INSERT, values)
            self.number = self._connection.execute(FIND, values).get
            if len(self.known) >= MAX_KNOWN:
                self.known.clear()
            if values == self.current:
                self.known[values] = self.number
        return self.number

    def replace(self, **values: str) -> None:
        """Change values of the current origin."""
        self.current = Origin(*self.current)._replace(**values)
        self.number = self.known.get(self.current, 0)

    def sequence_number(self) -> int | None:
        """Return the second part of the id of the current input's entry, None without an input."""
        _, _, rest = self.input_id.partition("-")
        digits = rest.partition(".")[0]
        return int(digits) if digits and len(digits) < 19 else None

    def find(self, number: int) -> Origin | None:
        """Return the origin with that number, None if it is not known."""
        row = self._connection.execute(GET, (number,)).fetchone()
        return None if row is None else Origin(*row)
