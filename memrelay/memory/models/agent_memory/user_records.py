"""The records of users: look-ups by every id that a person has, and their views.

The functions run inside the open transaction. A user's counter `uses` counts conversations.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.engine.counters import Counters, CounterTable
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, Refused, ValueTooLarge
from memrelay.memory.models.agent_memory.scopes import MAX_ID_CHARACTERS
from memrelay.memory.models.agent_memory.table import UserTable
from memrelay.memory.records.data import MOST_BYTES, as_text, kept_data, parse_data
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import version_of

TELEGRAM, EMAIL = "telegram", "email"
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


def view_user(tx: Transaction, state: State) -> UserView:
    """Return the view of a stored user. Raises RecordDamaged."""
    return view_record(state.record, state.extras, tx.table(CounterTable).find(state.guid))


def view_record(record: Record, extras: RecordExtras, counters: Counters) -> UserView:
    """Return the view of a user's record with its counters. Raises RecordDamaged."""
    data = kept_data(record, extras)
    return UserView(
        record.guid,
        extras.key or "",
        record.content or None,
        data.get("telegram_id"),
        data.get("telegram_username"),
        data.get("email"),
        data.get("preferences", {}),
        data.get("merged_into"),
        counters.uses,
        None if counters.used_at is None else format_time(counters.used_at),
        format_time(record.created_at),
        format_time(record.created_at if counters.seen_at is None else counters.seen_at),
        format_time(record.created_at),
        format_time(record.updated_at),
        version_of(record, extras),
    )


def find_user(tx: Transaction, user_id: str) -> StoredRecord | None:
    """Return the user with that canonical id or guid, or the one that it was merged into, or
    None.
    """
    stored = tx.table(UserTable).by_id(user_id) or tx.table(UserTable).by_guid(user_id)
    return None if stored is None else follow_merges(tx, stored)


def fetch_user(tx: Transaction, user_id: str) -> StoredRecord:
    """Return the user that `find_user` returns. Raises RecordNotFound."""
    if (stored := find_user(tx, user_id)) is None:
        raise RecordNotFound(
            f"no user has the id {user_id!r}; a canonical id has the form channel:id, and "
            "users.list lists all users"
        )
    return stored


def current_id(tx: Transaction, user_id: str) -> str:
    """Return the canonical id of the user that a user was merged into; an unknown id as it is."""
    stored = tx.table(UserTable).by_id(user_id) if user_id else None
    return user_id if stored is None else follow_merges(tx, stored).state.key or user_id


def follow_merges(tx: Transaction, stored: StoredRecord) -> StoredRecord:
    """Return the user at the end of a chain of merges."""
    for _ in range(MAX_MERGES):
        into = read_data(stored.state).get("merged_into")
        following = tx.table(UserTable).by_id(into) if into else None
        if following is None:
            return stored
        stored = following
    return stored


def read_data(state: State) -> dict[str, Any]:
    """Return the `data` of a user. Raises RecordDamaged."""
    return parse_data(state.data, state.guid)


def packed(data: dict[str, Any]) -> str | None:
    """Return the `data` of a user as stored, without null and empty values.

    Raises ValueTooLarge: when it is too long.
    """
    present = {name: value for name, value in data.items() if value}
    if len(orjson.dumps(present)) > MOST_BYTES:
        raise ValueTooLarge(
            f"the identifiers and preferences of a user have at most {MOST_BYTES} bytes as JSON; "
            "remove preferences, or store them as facts"
        )
    return as_text(present)


def canonical_id(channel: str, ident: str) -> str:
    """Return the canonical id of a user. Ids of the channel `email` are compared in lower case.

    Raises Refused: when the channel or the id is empty, has an invalid character or is too long.
    """
    channel, ident = channel.strip(), clean_id(channel, ident)
    if not channel or ":" in channel or not _is_clean(channel):
        raise Refused(
            f"`channel` is a name without `:`, such as telegram or webhook; got {channel[:64]!r}"
        )
    if not ident or not _is_clean(ident):
        raise Refused("`id` is the user's id in the channel: a text without the character NUL")
    made = f"{channel}:{ident.replace('%', '%25').replace(':', '%3A')}"
    if len(made) > MAX_ID_CHARACTERS:
        raise Refused(
            f"the canonical id of a user has at most {MAX_ID_CHARACTERS} characters; "
            f"this one has {len(made)}, so send a shorter id"
        )
    return made


def clean_id(channel: str, ident: str) -> str:
    """Return the id of a user in a channel as it is stored."""
    return ident.strip().lower() if channel.strip() == EMAIL else ident.strip()


def split_canonical(user_id: str) -> tuple[str, str]:
    """Return (channel, decoded id) of a canonical id. The channel is "" if it has none."""
    channel, colon, ident = user_id.partition(":")
    if not colon:
        return "", user_id
    return channel, ident.replace("%3A", ":").replace("%25", "%")


def _is_clean(text: str) -> bool:
    return "\0" not in text and text.isprintable()
