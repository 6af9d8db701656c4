"""Users: one identity for the ids that a person has in several channels.

The functions run inside the store's open transaction. A user's tally counts conversations (`uses`).
"""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from memrelay.memory.engine.conditions import Conditions
from memrelay.memory.engine.counters import TallyTable
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import KeyTaken
from memrelay.memory.models.agent_memory.deletion import Deleted, DeleteMany
from memrelay.memory.models.agent_memory.scopes import MAX_ID_CHARACTERS, OptionalId
from memrelay.memory.models.agent_memory.table import USERS, UserTable
from memrelay.memory.models.agent_memory.user_context import UserContext, user_context
from memrelay.memory.models.agent_memory.user_erasure import Forgotten, forget_user
from memrelay.memory.models.agent_memory.user_ids import EMAIL, TELEGRAM, canonical_id, clean_id
from memrelay.memory.models.agent_memory.user_merge import merge_users
from memrelay.memory.models.agent_memory.user_records import (
    UserView,
    _final,
    data_of,
    fetch_user,
    packed,
    view_record,
    view_user,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST, Data
from memrelay.memory.records.kinds import USER_KIND
from memrelay.memory.records.reading import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.view import Reason, Versions
from memrelay.memory.records.writing import check_version

# The field of a user that holds its id in a channel.
IDENTIFIER = {TELEGRAM: "telegram_id", EMAIL: "email"}
UserId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
Identifier = Annotated[str, Field(max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
DisplayName = Annotated[str, Field(max_length=255)]


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
    place = tx.table(UserTable).by_identifier(field, value) if field else None
    if place is None:
        place = tx.table(UserTable).by_id(user_id)
    if place is None:
        new = _new_state(user_id, {field: value} if field else {}, context)
        state = tx.table(UserTable).insert(_with_names(new, names))
    else:
        state = _rename(tx, _final(tx, place), names)
    is_new = tx.table(TallyTable).find(state.guid).uses == 0
    tx.table(TallyTable).count_use(state.guid, context.now_ms)
    tx.table(TallyTable).note_seen(state.guid, context.now_ms)
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
    if (holder := tx.table(UserTable).holder(after)) is not None:
        raise KeyTaken(
            f"user {holder.whole.key!r} has this telegram_id or email already; merge the two users "
            "with users.merge"
        )
    return view_user(
        tx, place.whole if after == before else tx.table(UserTable).change(place, after)
    )


def _rename(tx: Transaction, place: StoredRecord, names: tuple[str, str]) -> State:
    """Store the names if they are new, and return the user as stored."""
    wanted = _with_names(place.whole, names)
    return place.whole if wanted == place.whole else tx.table(UserTable).change(place, wanted)


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


@dataclass(frozen=True, slots=True)
class IdentifyUser:
    """A person in a channel."""

    channel: Annotated[str, Field(min_length=1, max_length=64)]
    """The channel, such as telegram, email, webhook or chat."""
    channel_id: Annotated[Identifier, Field(min_length=1)]
    """The id of the person in the channel."""
    display_name: DisplayName = ""
    """The name to show. It is stored only if the user has none."""
    telegram_username: DisplayName = ""
    """The user name in Telegram."""


@operation("users.identify", access="write", mutates=True, home="memories", any_store=True)
def identify_user(tx: Transaction, given: IdentifyUser, context: Context) -> Identified:
    """Find or create the user behind an id in a channel, and count a conversation.

    Raises Refused: when the channel or the id is invalid.
    """
    names = (given.display_name, given.telegram_username)
    return identify(tx, given.channel, given.channel_id, context, names)


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
    views = (view_record(*one, tx.table(TallyTable).find(one[0].guid)) for one in found)
    return UserPage(tuple(views), total)


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


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The user whose context is returned."""

    id: UserId
    """The canonical id, `channel:id`, or the id of the user's record."""
    agent_id: OptionalId = ""
    """Limits the history to episodes of this agent. By default all agents."""


@operation("users.context", access="read", mutates=False, home="memories", any_store=True)
def read_context(tx: Transaction, wanted: ReadContext, context: Context) -> UserContext:
    """Return identity, preferences, facts and history of a user. An unknown user is new."""
    return user_context(tx, wanted.id, wanted.agent_id)


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


@operation("users.delete_many", access="delete", mutates=True, home="memories", any_store=True)
def delete_many(tx: Transaction, target: DeleteMany, context: Context) -> Deleted:
    """Delete users. Unknown ids are ignored. records.restore can undo it.

    Facts and episodes of the users stay; users.forget erases them too.
    """
    return Deleted(tx.table(UserTable).delete(target.ids))
