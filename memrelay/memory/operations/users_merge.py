"""users.merge: merges two users who are the same person."""

from dataclasses import dataclass

from memrelay.memory.agents.people.merge import merge_users
from memrelay.memory.agents.users import UserId, UserView
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Reason
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class MergeUsers:
    """Two users who are the same person."""

    id: UserId
    """The user who is merged: the canonical id, `channel:id`, or the id of the user's record."""
    into: UserId
    """The user who remains: the canonical id, or the id of the record."""
    reason: Reason = ""
    """The reason, kept in the history."""


@operation("users.merge", access="write", mutates=True, home="memories", any_store=True)
def merge(tx: Transaction, given: MergeUsers, context: Context) -> UserView:
    """Merge a user into another one: facts, episodes, identifiers and counters move.

    Facts of `into` win over facts with the same key, which stay in the history.

    Raises RecordNotFound: when a user does not exist.
    Raises Refused: when both are already the same user.
    """
    return merge_users(tx, given.id, given.into)
