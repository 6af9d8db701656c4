"""Erases texts and names in origins."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.quotes import Matcher

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

NAMES = ", ".join(Origin._fields)
SELECT = f"SELECT id, {NAMES} FROM origins"
UPDATE = f"UPDATE origins SET {', '.join(f'{name} = ?' for name in Origin._fields)} WHERE id = ?"


class OriginErasure(ModelErasure):
    """Replaces names that an erasure finds. The states keep their origin, without the name."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        self._origins = store.records.versions.origins

    def erase(self, matcher: Matcher) -> None:
        """Replace the names that the matcher finds."""
        self._replace(lambda text: bool(matcher.in_text(text)))

    def silence(self, has_erased: Erases) -> int:
        """Replace the names with an erased text. They are no messages, so none are counted."""
        self._replace(lambda text: has_erased(text.encode()))
        return 0

    def _replace(self, matches: Callable[[str], bool]) -> None:
        run = self._connection.execute
        for number, *values in list(run(SELECT)):
            # With its number, because two origins must not become equal.
            kept = [f"erased {number}" if one and matches(one) else one for one in values]
            if kept != values:
                run(UPDATE, (*kept, number))
                self._origins.reset()
