"""users.list: lists users in pages, the last seen first."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.users import UserView, view_record
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import USER_KIND
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListUsers:
    """The page of users."""

    limit: Limit = 50
    """The maximum number of users."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of users to skip."""


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users."""

    items: tuple[UserView, ...]
    total: int
    """The number of users on all pages, including merged ones."""


@operation("users.list", access="read", mutates=False, home="memories", any_store=True)
def list_users(tx: Transaction, wanted: ListUsers, context: Context) -> UserPage:
    """List users in pages, the last seen first. Of equal times, the later arrival is first."""
    conditions = Conditions(given=literal_kind(USER_KIND))
    window = (wanted.limit, wanted.offset)
    found, total = take_ordered_page(tx, conditions, ("seen_at", "desc"), window, context)
    views = (view_record(*one, tx.tallies.find(one[0].guid)) for one in found)
    return UserPage(tuple(views), total)
