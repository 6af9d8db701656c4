"""The records of users: look-ups by every id that a person has, and their views.

The functions run inside the open transaction. A user's counter `uses` counts conversations."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.engine.counters import Tally, TallyTable
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, ValueTooLarge
from memrelay.memory.models.agent_memory.table import UserTable
from memrelay.memory.records.data import MOST_BYTES, as_text, kept_data
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import version_of

MAX_MERGES = 1000


@dataclass(frozen=True, slots=True)
class UserView:
    """A user."""

    id: str
    """The guid of the user's record."""
    canonical_id: str
    """The id of the user: `channel:id`."""
    display_name: str | None
    """The name to show."""
    telegram_id: str | None
    """The id in Telegram."""
    telegram_username: str | None
    """The user name in Telegram."""
    email: str | None
    """The email address, in lower case."""
    preferences: dict[str, Any]
    """Preferences that agents stored."""
    merged_into: str | None
    """The canonical id of the user that this one was merged into."""
    total_conversations: int
    """How often the user was identified."""
    last_conversation_at: Moment | None
    """When the user was identified last."""
    first_seen_at: Moment
    last_seen_at: Moment
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every edit; an edit can require it."""


def find_user(tx: Transaction, user_id: str) -> StoredRecord | None:
    """Return the user with that canonical id or guid, or the one that it was merged into, or
    None.
    """
    found = tx.table(UserTable).by_id(user_id) or tx.table(UserTable).by_guid(user_id)
    return None if found is None else _final(tx, found)


def current_id(tx: Transaction, user_id: str) -> str:
    """Return the canonical id of the user that a user was merged into; an unknown id as it is."""
    found = tx.table(UserTable).by_id(user_id) if user_id else None
    return user_id if found is None else _final(tx, found).whole.key or user_id


def fetch_user(tx: Transaction, user_id: str) -> StoredRecord:
    """Return the user that `find_user` returns. Raises RecordNotFound."""
    if (found := find_user(tx, user_id)) is None:
        raise RecordNotFound(
            f"no user has the id {user_id!r}; a canonical id has the form channel:id, and "
            "users.list lists all users"
        )
    return found


def view_user(tx: Transaction, state: State) -> UserView:
    """Return the view of a stored user. Raises RecordDamaged."""
    return view_record(state.record, state.further, tx.table(TallyTable).find(state.guid))


def view_record(record: Record, further: Further, tally: Tally) -> UserView:
    """Return the view of a user's record with its counters. Raises RecordDamaged."""
    data = kept_data(record, further)
    return UserView(
        record.guid,
        further.key or "",
        record.content or None,
        data.get("telegram_id"),
        data.get("telegram_username"),
        data.get("email"),
        data.get("preferences", {}),
        data.get("merged_into"),
        tally.uses,
        None if tally.used_at is None else format_time(tally.used_at),
        format_time(record.created_at),
        format_time(record.created_at if tally.seen_at is None else tally.seen_at),
        format_time(record.created_at),
        format_time(record.updated_at),
        version_of(record, further),
    )


def data_of(state: State) -> dict[str, Any]:
    """Return the `data` of a user. Raises RecordDamaged."""
    return kept_data(state.record, state.further)


def packed(data: dict[str, Any]) -> str | None:
    """Return the `data` of a user as stored, without null and empty values.

    Raises ValueTooLarge: when it is too long.
    """
    given = {name: value for name, value in data.items() if value}
    if len(orjson.dumps(given)) > MOST_BYTES:
        raise ValueTooLarge(
            f"the identifiers and preferences of a user have at most {MOST_BYTES} bytes as JSON; "
            "remove preferences, or store them as facts"
        )
    return as_text(given)


def _final(tx: Transaction, place: StoredRecord) -> StoredRecord:
    """Return the user at the end of a chain of merges."""
    for _ in range(MAX_MERGES):
        into = data_of(place.whole).get("merged_into")
        following = tx.table(UserTable).by_id(into) if into else None
        if following is None:
            return place
        place = following
    return place
