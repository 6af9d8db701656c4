"""Scopes, ids and deletions, which the nouns of agent memory share."""

from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.records.view import Guid, Reason
from memrelay.memory.validation import find_closest

GLOBAL: Final = "global"
# From the most specific to the least specific.
SCOPES = ("session", "user", "agent", GLOBAL)
# Characters of an id of an agent, a user or a session. The scope of a record has a few more.
MAX_ID_CHARACTERS = 240
# SQLite's functions end a text at the character NUL.
OptionalId = Annotated[str, Field(max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
GivenId = Annotated[OptionalId, Field(min_length=1)]
# Records that one call deletes.
MAX_DELETED = 1000


class Ids(NamedTuple):
    """The ids that select scopes. "" for none."""

    agent_id: str = ""
    user_id: str = ""
    session_id: str = ""

    @property
    def visible(self) -> list[str]:
        """The scopes that are visible with these ids, from the most specific to the least."""
        chain = (("session", self.session_id), ("user", self.user_id), ("agent", self.agent_id))
        return [*(f"{name}:{id_}" for name, id_ in chain if id_), GLOBAL]

    def scope(self, name: str) -> str:
        """Return the scope of that name with its id.

        Raises Refused: when there is no such scope, or its id is missing.
        """
        check_name("scope", name, SCOPES)
        if name == GLOBAL:
            return GLOBAL
        id_ = str(getattr(self, f"{name}_id"))
        if not id_:
            raise Refused(f"scope {name!r} needs `{name}_id`; set it, or use the scope {GLOBAL!r}")
        return f"{name}:{id_}"


def make_agent_scope(agent_id: str) -> str:
    """Return the scope of the procedures and episodes of an agent."""
    return f"agent:{agent_id}"


def split_scope(scope: str) -> tuple[str, str]:
    """Return (name, id) of a record's scope. The id of `global` is ""."""
    name, _, id_ = scope.partition(":")
    return name, id_


def check_name(field: str, name: str, valid_names: tuple[str, ...]) -> None:
    """Raise Refused, with a suggestion, if a name is not valid."""
    if name in valid_names:
        return
    near = find_closest(name, valid_names)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(valid_names)}"
    raise Refused(f"unknown {field} {name[:64]!r} ({hint})")


@dataclass(frozen=True, slots=True)
class DeleteMany:
    """The records to delete."""

    ids: Annotated[tuple[Guid, ...], Field(max_length=MAX_DELETED)]
    """Their ids."""
    reason: Reason = ""
    """The reason, kept in the history."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of a deletion."""

    deleted: int
    """The number of records that existed and were deleted."""
