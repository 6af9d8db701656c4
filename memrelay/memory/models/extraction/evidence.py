"""Evidence: which turns a record was made of, and its end with them."""

from collections.abc import Iterable, Sequence

import orjson

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.table import StoreTable

INSERT = "INSERT OR IGNORE INTO evidence(record, turn) VALUES (?, ?)"
LISTED = "(SELECT value FROM json_each(?))"
RECORDS_OF = f"SELECT DISTINCT record FROM evidence WHERE turn IN {LISTED} ORDER BY record"
TURNS_OF = "SELECT turn FROM evidence WHERE record = ? ORDER BY turn"
HAS_TURN = (
    "SELECT EXISTS (SELECT 1 FROM evidence JOIN records ON records.guid = evidence.turn "
    "WHERE evidence.record = ?)"
)
HAS_OTHER = (
    "SELECT EXISTS (SELECT 1 FROM evidence AS e LEFT JOIN records AS r ON r.guid = e.turn "
    "AND r.kind = 'turn' AND coalesce(r.data ->> '$.role', 'user') = 'user' "
    "WHERE e.record = ? AND r.guid IS NULL)"
)
HAS_EVIDENCE = "SELECT EXISTS (SELECT 1 FROM evidence WHERE record = ?)"
ERRORS = "SELECT pipeline, agent, error FROM extractors WHERE error <> ''"
BLANK = "UPDATE extractors SET error = 'erased' WHERE pipeline = ? AND agent = ?"


class EvidenceTable(StoreTable):
    """Links records to turns inside the store's open transaction."""

    READS = ("exists", "is_of_users")

    def add(self, record: str, turns: Iterable[str]) -> None:
        """Note that a record was made of these turns, by their guids."""
        self._connection.executemany(INSERT, [(record, turn) for turn in turns])

    def turns_of(self, record: str) -> list[str]:
        """Return the guids of the turns of a record, deleted ones included."""
        return [turn for (turn,) in self._connection.execute(TURNS_OF, (record,))]

    def exists(self, record: str) -> bool:
        """Return whether a record was made of turns."""
        return bool(self._connection.execute(HAS_EVIDENCE, (record,)).get)

    def is_of_users(self, record: str) -> bool:
        """Return whether all turns of a record exist, and users said them. True without turns."""
        self._records.flush()
        return not self._connection.execute(HAS_OTHER, (record,)).get


class EvidenceErasure(ModelErasure):
    """A record goes with each erased turn that it was made of: its text may contain the same."""

    def take_dependents(self, guids: Sequence[str]) -> list[str]:
        """Return the records that were made of erased turns, and delete their evidence."""
        run = self._connection.execute
        found = [record for (record,) in run(RECORDS_OF, (_as_json(guids),))]
        gone = _as_json([*guids, *found])
        run(f"DELETE FROM evidence WHERE turn IN {LISTED}", (gone,))
        run(f"DELETE FROM evidence WHERE record IN {LISTED}", (gone,))
        return found

    def erase(self, matcher: Matcher) -> None:
        """Blank the errors that the matcher finds. A service may repeat a part of its request."""
        self._blank([key for *key, error in self._errors() if matcher.in_text(error)])

    def silence(self, has_erased: Erases) -> int:
        """Blank the errors with an erased text, and return their number."""
        return self._blank([key for *key, error in self._errors() if has_erased(error.encode())])

    def _errors(self) -> list[tuple[str, str, str]]:
        return list(self._connection.execute(ERRORS))

    def _blank(self, keys: list[list[str]]) -> int:
        self._connection.executemany(BLANK, keys)
        return len(keys)


def _as_json(guids: Sequence[str]) -> str:
    return orjson.dumps(guids).decode()
