"""The names of results."""

import re

from memrelay.memory.models.recipes.faults import Problems, listed, quoted
from memrelay.memory.models.recipes.step import ResultType
from memrelay.memory.validation import Place

ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
RESERVED = ("query", "keywords", "action", "context", "intent", "results", "count", "vars")
# Aliases of a step of unknown type have any result type.
ANY: tuple[ResultType, ...] = ("list", "groups", "text", "boolean")


class Aliases:
    """The aliases of the steps so far, with the result types of each."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.returns: dict[str, tuple[ResultType, ...]] = {}

    def check(self, given: object, type_name: str, place: Place) -> str:
        """Return the alias of a step, and report a malformed or used one."""
        if given is None:
            return self._default(type_name)
        if not isinstance(given, str) or not ALIAS.fullmatch(given):
            rule = "an alias has 1 to 64 letters, digits, _ and -, and begins with a letter or _"
            self._problems.error(place, "bad_alias", f"{rule}, not {quoted(given)}")
            return self._default(type_name)
        if given in RESERVED:
            message = f'alias "{given}" is reserved, like {listed(RESERVED)}'
            self._problems.error(place, "bad_alias", message)
        elif given in self.returns:
            message = f'alias "{given}" is the name of an earlier result'
            self._problems.error(place, "duplicate_alias", message)
        return given

    def _default(self, type_name: str) -> str:
        """Return the type, then `type_2`."""
        alias, number = type_name, 1
        while alias in self.returns:
            number += 1
            alias = f"{type_name}_{number}"
        return alias
