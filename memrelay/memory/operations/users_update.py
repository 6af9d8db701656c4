"""users.update: changes a user's name, identifiers and preferences."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.users import (
    DisplayName,
    Identifier,
    UserChange,
    UserId,
    UserView,
    fetch_user,
    update_user,
)
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.data import Data
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class UpdateUser:
    """The user to change. Fields that are null or missing stay as before."""

    id: UserId
    """The canonical id, `channel:id`, or the id of the user's record."""
    display_name: DisplayName | None = None
    """The name to show. "" removes it."""
    telegram_id: Identifier | None = None
    """The id in Telegram. "" removes it."""
    telegram_username: DisplayName | None = None
    """The user name in Telegram. "" removes it."""
    email: Annotated[Identifier, Field(max_length=255)] | None = None
    """The email address. "" removes it."""
    preferences: Data | None = None
    """Preferences to set; null removes one. Others stay."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the user has one of these versions."""


@operation("users.update", access="write", mutates=True, home="memories", any_store=True)
def update(tx: Transaction, given: UpdateUser, context: Context) -> UserView:
    """Change a user's name and identifiers, and merge preferences into the stored ones.

    Raises RecordNotFound: when the user does not exist.
    Raises VersionConflict: when the user has another version.
    Raises KeyTaken: when another user has the telegram_id or the email.
    Raises ValueTooLarge: when the preferences become too long.
    """
    place = fetch_user(tx, given.id)
    check_version(place.whole.record, place.whole.further, given.if_version)
    identifiers = {
        "telegram_id": given.telegram_id,
        "telegram_username": given.telegram_username,
        "email": given.email,
    }
    change = UserChange(given.display_name, identifiers, given.preferences or {})
    return update_user(tx, place, change)
