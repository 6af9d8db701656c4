"""users.get: returns a user."""

from dataclasses import dataclass

from memrelay.memory.agents.users import UserId, UserView, fetch_user, view_user
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class GetUser:
    """The user to return."""

    id: UserId
    """The canonical id, `channel:id`, or the id of the user's record."""


@operation("users.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: GetUser, context: Context) -> UserView:
    """Return a user. A merged user leads to the one that it was merged into.

    Raises RecordNotFound: when the user does not exist.
    """
    return view_user(tx, fetch_user(tx, wanted.id).whole)
