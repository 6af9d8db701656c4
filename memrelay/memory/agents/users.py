"""Users: one identity for the ids that a person has in several channels.

The functions run inside the store's open transaction. A user's tally counts conversations (`uses`).
"""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.agents.people.user_ids import EMAIL, TELEGRAM, canonical_id, clean_id
from memrelay.memory.agents.people.user_table import USERS
from memrelay.memory.agents.scopes import MAX_ID_CHARACTERS
from memrelay.memory.errors import KeyTaken, RecordNotFound, ValueTooLarge
from memrelay.memory.operation import Context
from memrelay.memory.records.data import MOST_BYTES, as_text, kept_data
from memrelay.memory.records.kinds import USER_KIND
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import version_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.tallies import Tally
from memrelay.memory.timestamps import Moment, format_time

# The field of a user that holds its id in a channel.
IDENTIFIER = {TELEGRAM: "telegram_id", EMAIL: "email"}
MAX_MERGES = 1000

UserId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
Identifier = Annotated[str, Field(max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
DisplayName = Annotated[str, Field(max_length=255)]


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


@dataclass(frozen=True, slots=True)
class Identified:
    """A user who was identified."""

    user: UserView
    """The user."""
    is_new_user: bool
    """Whether this is the user's first conversation."""


def identify(
    tx: Transaction,
    channel: str,
    ident: str,
    context: Context,
    names: tuple[str, str] = ("", ""),
) -> Identified:
    """Find or create the user with that id in a channel, and count a conversation.

    `names` are (display name, user name in Telegram). A display name is stored only if the user has
    none. A merged user leads to the user that it was merged into.

    Raises Refused: when the channel or the id is invalid.
    """
    user_id = canonical_id(channel, ident)
    field = IDENTIFIER.get(channel.strip())
    value = clean_id(channel, ident)
    place = tx.users.by_identifier(field, value) if field else None
    if place is None:
        place = tx.users.by_id(user_id)
    if place is None:
        new = _new_state(user_id, {field: value} if field else {}, context)
        state = tx.users.insert(_with_names(new, names))
    else:
        state = _rename(tx, _final(tx, place), names)
    is_new = tx.tallies.find(state.guid).uses == 0
    tx.tallies.count_use(state.guid, context.now_ms)
    tx.tallies.note_seen(state.guid, context.now_ms)
    return Identified(view_user(tx, state), is_new)


@dataclass(frozen=True, slots=True)
class UserChange:
    """Changes of a user. None keeps a value, and "" removes it."""

    display_name: str | None
    # By field: telegram_id, telegram_username and email.
    identifiers: dict[str, str | None]
    # None removes a preference. The others stay.
    preferences: dict[str, Any]


def update_user(tx: Transaction, place: StoredRecord, change: UserChange) -> UserView:
    """Change a user, and return it.

    Raises KeyTaken: when another user has the telegram_id or the email.
    Raises ValueTooLarge: when the preferences become too long.
    """
    before = place.whole
    data = data_of(before)
    for name, value in change.identifiers.items():
        if value is not None:
            data[name] = clean_id(name, value)
    preferences = data.get("preferences", {}) | change.preferences
    data["preferences"] = {name: one for name, one in preferences.items() if one is not None}
    content = before.content if change.display_name is None else change.display_name.strip()
    after = before._replace(content=content, data=packed(data))
    if (holder := tx.users.holder(after)) is not None:
        raise KeyTaken(
            f"user {holder.whole.key!r} has this telegram_id or email already; merge the two users "
            "with users.merge"
        )
    return view_user(tx, place.whole if after == before else tx.users.change(place, after))


def find_user(tx: Transaction, user_id: str) -> StoredRecord | None:
    """Return the user with that canonical id or guid, or the one that it was merged into, or
    None.
    """
    found = tx.users.by_id(user_id) or tx.users.by_guid(user_id)
    return None if found is None else _final(tx, found)


def current_id(tx: Transaction, user_id: str) -> str:
    """Return the canonical id of the user that a user was merged into; an unknown id as it is."""
    found = tx.users.by_id(user_id) if user_id else None
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
    return view_record(state.record, state.further, tx.tallies.find(state.guid))


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
        following = tx.users.by_id(into) if into else None
        if following is None:
            return place
        place = following
    return place


def _rename(tx: Transaction, place: StoredRecord, names: tuple[str, str]) -> State:
    """Store the names if they are new, and return the user as stored."""
    wanted = _with_names(place.whole, names)
    return place.whole if wanted == place.whole else tx.users.change(place, wanted)


def _with_names(state: State, names: tuple[str, str]) -> State:
    display_name, username = (_clean(name) for name in names)
    data = data_of(state)
    if username and username != data.get("telegram_username"):
        return state._replace(
            content=state.content or display_name,
            data=packed(data | {"telegram_username": username}),
        )
    return state._replace(content=state.content or display_name)


def _clean(name: str) -> str:
    return name.replace("\0", "").encode(errors="replace").decode().strip()[:255]


def _new_state(user_id: str, data: dict[str, Any], context: Context) -> State:
    new = new_state(context.new_guid(), USER_KIND, context.now_ms, context.actor)
    return new._replace(scope=USERS, key=user_id, owner=user_id, data=packed(data))
