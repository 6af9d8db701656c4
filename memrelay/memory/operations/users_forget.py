"""users.forget: erases a user with all records, threads and messages."""

from dataclasses import dataclass

from memrelay.memory.agents.people.forget import Forgotten, forget_user
from memrelay.memory.agents.users import UserId
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.view import Reason
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ForgetUser:
    """The user to forget."""

    id: UserId
    """The canonical id, `channel:id`, or the id of the user's record."""
    reason: Reason = ""
    """The reason, which is kept. It must not contain what is to be erased."""


@operation(
    "users.forget", access="admin", mutates=True, erases=True, home="memories", any_store=True
)
def forget(tx: Transaction, target: ForgetUser, context: Context) -> Forgotten:
    """Erase a user permanently, with all records and threads, also those of merged users.

    Messages, replies and dead letters that quote the records or the user's identifiers are erased
    afterwards, and the files are rewritten. records.erasures reports when that is done.
    """
    return forget_user(tx, target.id, (context.now_ms, context.actor, target.reason))
