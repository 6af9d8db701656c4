"""Users: one identity for the ids that a person has in several channels.

The functions run inside the store's open transaction. Counters of a user count conversations
(`uses`).
"""

from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.engine.counters import CounterTable
from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.quotes import Quotes
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, next_change_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import KeyTaken, Refused
from memrelay.memory.models.agent_memory import USER_KIND
from memrelay.memory.models.agent_memory.checkpoint_table import CheckpointTable
from memrelay.memory.models.agent_memory.conversations import delete_user_threads
from memrelay.memory.models.agent_memory.episodes import recent_episodes
from memrelay.memory.models.agent_memory.scopes import (
    Deleted,
    DeleteMany,
    GivenId,
    OptionalId,
)
from memrelay.memory.models.agent_memory.table import IDENTIFIERS, USERS, UserTable
from memrelay.memory.models.agent_memory.user_records import (
    EMAIL,
    TELEGRAM,
    UserView,
    canonical_id,
    clean_id,
    fetch_user,
    find_user,
    follow_merges,
    packed,
    read_data,
    split_canonical,
    view_record,
    view_user,
)
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import Data, kept_data
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import Limit, Offset, take_page
from memrelay.memory.records.reading import literal_kind, take_ordered_page
from memrelay.memory.records.view import Reason, Versions

# The field of a user that holds its id in a channel.
IDENTIFIER = {TELEGRAM: "telegram_id", EMAIL: "email"}
DisplayName = Annotated[str, Field(max_length=255)]


@dataclass(frozen=True, slots=True)
class Identified:
    """A user who was identified."""

    user: UserView
    """The user."""
    is_new_user: bool
    """Whether this is the user's first conversation."""


@dataclass(frozen=True, slots=True)
class IdentifyUser:
    """A person in a channel."""

    channel: Annotated[str, Field(min_length=1, max_length=64)]
    """The channel, such as telegram, email, webhook or chat."""
    channel_id: GivenId
    """The id of the person in the channel."""
    display_name: DisplayName = ""
    """The name to show. It is stored only if the user has none."""
    telegram_username: DisplayName = ""
    """The user name in Telegram."""


@operation("users.identify", access="write", mutates=True, store="memories", any_store=True)
def identify_user(tx: Transaction, request: IdentifyUser, context: Context) -> Identified:
    """Find or create the user behind an id in a channel, and count a conversation.

    Raises Refused: when the channel or the id is invalid.
    """
    names = (request.display_name, request.telegram_username)
    return identify(tx, request.channel, request.channel_id, context, names)


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
    table, counters = tx.table(UserTable), tx.table(CounterTable)
    user_id = canonical_id(channel, ident)
    field = IDENTIFIER.get(channel.strip())
    identifiers = {field: clean_id(channel, ident)} if field else {}
    stored = table.by_identifier(field, identifiers[field]) if field else None
    if stored is None:
        stored = table.by_id(user_id)
    if stored is None:
        new = new_state(context.new_guid(), USER_KIND, context.now_ms, context.actor)
        new = new._replace(scope=USERS, key=user_id, owner=user_id, data=packed(identifiers))
        state = table.insert(_add_names(new, names))
    else:
        stored = follow_merges(tx, stored)
        state = _add_names(stored.state, names)
        if state != stored.state:
            state = table.change(stored, state)
    is_new = counters.find(state.guid).uses == 0
    counters.count_use(state.guid, context.now_ms)
    counters.note_seen(state.guid, context.now_ms)
    return Identified(view_user(tx, state), is_new)


def _add_names(state: State, names: tuple[str, str]) -> State:
    """Return the user with the names, if they are new."""
    display_name, username = (_clean(name) for name in names)
    state = state._replace(content=state.content or display_name)
    data = read_data(state)
    if username and username != data.get("telegram_username"):
        return state._replace(data=packed(data | {"telegram_username": username}))
    return state


def _clean(name: str) -> str:
    return name.replace("\0", "").encode(errors="replace").decode().strip()[:255]


@dataclass(frozen=True, slots=True)
class GetUser:
    """The user to return."""

    id: GivenId
    """The canonical id, `channel:id`, or the id of the user's record."""


@operation("users.get", access="read", mutates=False, store="memories", any_store=True)
def get(tx: Transaction, request: GetUser, context: Context) -> UserView:
    """Return a user. A merged user leads to the one that it was merged into.

    Raises RecordNotFound: when the user does not exist.
    """
    return view_user(tx, fetch_user(tx, request.id).state)


@dataclass(frozen=True, slots=True)
class ListUsers:
    """The page of users."""

    limit: Limit = 50
    """The maximum number of users."""
    offset: Offset = 0
    """The number of users to skip."""


@dataclass(frozen=True, slots=True)
class UserPage:
    """A page of users."""

    items: tuple[UserView, ...]
    total: int
    """The number of users on all pages, including merged ones."""


@operation("users.list", access="read", mutates=False, store="memories", any_store=True)
def list_users(tx: Transaction, request: ListUsers, context: Context) -> UserPage:
    """List users in pages, the last seen first. Of equal times, the later arrival is first."""
    conditions = Conditions(given=literal_kind(USER_KIND))
    window = (request.limit, request.offset)
    records, total = take_ordered_page(tx, conditions, ("seen_at", "desc"), window, context)
    views = (view_record(*one, tx.table(CounterTable).find(one[0].guid)) for one in records)
    return UserPage(tuple(views), total)


@dataclass(frozen=True, slots=True)
class UpdateUser:
    """The user to change. Fields that are null or missing stay as before."""

    id: GivenId
    """The canonical id, `channel:id`, or the id of the user's record."""
    display_name: DisplayName | None = None
    """The name to show. "" removes it."""
    telegram_id: OptionalId | None = None
    """The id in Telegram. "" removes it."""
    telegram_username: DisplayName | None = None
    """The user name in Telegram. "" removes it."""
    email: Annotated[OptionalId, Field(max_length=255)] | None = None
    """The email address. "" removes it."""
    preferences: Data | None = None
    """Preferences to set; null removes one. Others stay."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the user has one of these versions."""


@operation("users.update", access="write", mutates=True, store="memories", any_store=True)
def update(tx: Transaction, request: UpdateUser, context: Context) -> UserView:
    """Change a user's name and identifiers, and merge preferences into the stored ones.

    Raises RecordNotFound: when the user does not exist.
    Raises VersionConflict: when the user has another version.
    Raises KeyTaken: when another user has the telegram_id or the email.
    Raises ValueTooLarge: when the preferences become too long.
    """
    stored = fetch_user(tx, request.id)
    before, table = stored.state, tx.table(UserTable)
    check_version(before.record, before.extras, request.if_version)
    data = read_data(before)
    for name in IDENTIFIERS:
        if (value := getattr(request, name)) is not None:
            data[name] = clean_id(name, value)
    preferences = data.get("preferences", {}) | (request.preferences or {})
    data["preferences"] = {name: one for name, one in preferences.items() if one is not None}
    content = before.content if request.display_name is None else request.display_name.strip()
    after = before._replace(content=content, data=packed(data))
    if (holder := table.holder(after)) is not None:
        raise KeyTaken(
            f"user {holder.state.key!r} has this telegram_id or email already; merge the two users "
            "with users.merge"
        )
    return view_user(tx, before if after == before else table.change(stored, after))


MAX_FACTS, MAX_HISTORY = 20, 5
# Of all values of the facts, as JSON. Later facts are left out.
MAX_FACT_BYTES = 65_536
NO_SUMMARY = "No summary"


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The user whose context is returned."""

    id: GivenId
    """The canonical id, `channel:id`, or the id of the user's record."""
    agent_id: OptionalId = ""
    """Limits the history to episodes of this agent. By default all agents."""


@dataclass(frozen=True, slots=True)
class UserFact:
    """A fact about the user."""

    key: str
    value: Any
    type: str
    """The type of knowledge."""


@dataclass(frozen=True, slots=True)
class PastEpisode:
    """An episode of the user."""

    summary: str
    success: bool
    when: Moment
    """When it began."""


@dataclass(frozen=True, slots=True)
class UserContext:
    """Identity, preferences, facts and history of a user."""

    user_id: str | None
    """The canonical id; null if the user has none."""
    is_new: bool
    """Whether the user was unknown until now."""
    facts: tuple[UserFact, ...] = ()
    """At most 20 facts of the scope user, the most used first."""
    history: tuple[PastEpisode, ...] = ()
    """At most 5 episodes of the user, the newest first."""
    canonical_id: str | None = None
    """The canonical id again."""
    display_name: str | None = None
    """The name to show."""
    channel: str | None = None
    """The channel of the user."""
    preferences: dict[str, Any] | None = None
    """Preferences that agents stored."""
    total_conversations: int = 0
    """How often the user was identified."""
    first_seen: Moment | None = None
    """When the user was identified first."""


@operation("users.context", access="read", mutates=False, store="memories", any_store=True)
def read_context(tx: Transaction, request: ReadContext, context: Context) -> UserContext:
    """Return identity, preferences, facts and history of a user. An unknown user is new."""
    return user_context(tx, request.id, request.agent_id)


def user_context(
    tx: Transaction, canonical_id: str, agent_id: str = "", *, is_new: bool = False
) -> UserContext:
    """Return what is known about a user. An agent limits the history to its episodes.

    An unknown user is new and has neither facts nor history.
    """
    stored = find_user(tx, canonical_id)
    if stored is None:
        return UserContext(canonical_id, True, canonical_id=canonical_id)
    user = view_user(tx, stored.state)
    episodes = recent_episodes(tx, agent_id, user.canonical_id, MAX_HISTORY)
    return UserContext(
        user.canonical_id,
        is_new,
        _facts(tx, user.canonical_id),
        tuple(
            PastEpisode(one.summary or NO_SUMMARY, one.success, one.started_at) for one in episodes
        ),
        user.canonical_id,
        user.display_name,
        split_canonical(user.canonical_id)[0] or None,
        user.preferences,
        user.total_conversations,
        user.first_seen_at,
    )


def _facts(tx: Transaction, user_id: str) -> tuple[UserFact, ...]:
    facts = []
    for record, extras in tx.table(UserTable).facts(user_id, MAX_FACTS):
        data = kept_data(record, extras)
        facts.append(UserFact(extras.key or "", data.get("value"), data.get("fact_type", "")))
    return tuple(take_page(facts, MAX_FACTS, MAX_FACT_BYTES)[0])


@dataclass(frozen=True, slots=True)
class MergeUsers:
    """Two users who are the same person."""

    id: GivenId
    """The user who is merged: the canonical id, `channel:id`, or the id of the user's record."""
    into: GivenId
    """The user who remains: the canonical id, or the id of the record."""
    reason: Reason = ""
    """The reason, kept in the history."""


@operation("users.merge", access="write", mutates=True, store="memories", any_store=True)
def merge(tx: Transaction, request: MergeUsers, context: Context) -> UserView:
    """Merge a user into another one: facts, episodes, identifiers and counters move.

    Facts of `into` win over facts with the same key, which stay in the history.

    Raises RecordNotFound: when a user does not exist.
    Raises Refused: when both are already the same user.
    """
    source, target = fetch_user(tx, request.id), fetch_user(tx, request.into)
    if source.guid == target.guid:
        raise Refused(
            f"{request.id!r} and {request.into!r} are already the same user, "
            f"{target.state.key!r}; nothing is left to merge"
        )
    source_id, target_id = source.state.key or "", target.state.key or ""
    for stored in tx.table(UserTable).belongings(source_id):
        _move(tx, stored, source_id, target_id)
    merged = _unite(tx, source, target)
    tx.table(CounterTable).move(source.guid, target.guid)
    return view_user(tx, merged)


def _move(tx: Transaction, stored: StoredRecord, source_id: str, target_id: str) -> None:
    before = stored.state
    after = before._replace(
        scope=f"user:{target_id}" if before.scope == f"user:{source_id}" else before.scope,
        owner=target_id if before.owner == source_id else before.owner,
        updated_at=next_change_ms(tx.records.versions.now_ms, before.updated_at),
    )
    if tx.key_holder(after) is not None:
        tx.records.delete(stored)
    else:
        tx.records.overwrite(stored, after)


def _unite(tx: Transaction, source: StoredRecord, target: StoredRecord) -> State:
    """Move identifiers, names and preferences; those of the target win. Return the target."""
    table = tx.table(UserTable)
    lost, won = read_data(source.state), read_data(target.state)
    moved = {name: lost[name] for name in IDENTIFIERS if lost.get(name) and not won.get(name)}
    rest = {name: value for name, value in lost.items() if name not in moved}
    # First, because an identifier is unique.
    left = packed(rest | {"merged_into": target.state.key})
    table.change(source, source.state._replace(data=left))
    preferences = {**lost.get("preferences", {}), **won.get("preferences", {})}
    data = packed(won | moved | {"preferences": preferences})
    name = target.state.content or source.state.content
    return table.change(target, target.state._replace(content=name, data=data))


BELONGS = (
    "(r.owner IN (SELECT value FROM json_each(?)) OR r.scope IN (SELECT 'user:' || value "
    "FROM json_each(?)))"
)


@dataclass(frozen=True, slots=True)
class ForgetUser:
    """The user to forget."""

    id: GivenId
    """The canonical id, `channel:id`, or the id of the user's record."""
    reason: Reason = ""
    """The reason, which is kept. It must not contain what is to be erased."""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Numbers of erased data in the store. records.erasures reports the rest."""

    records: int
    """The number of records."""
    versions: int
    """The number of their earlier states."""
    checkpoints: int
    """The number of checkpoints in the user's threads."""


@operation(
    "users.forget", access="admin", mutates=True, erases=True, store="memories", any_store=True
)
def forget(tx: Transaction, request: ForgetUser, context: Context) -> Forgotten:
    """Erase a user permanently, with all records and threads, also those of merged users.

    Messages, replies and dead letters that quote the records or the user's identifiers are erased
    afterwards, and the files are rewritten. records.erasures reports when that is done.
    """
    # A user without a record is erased too: its id can own facts and episodes.
    users = _list_merged(tx, request.id)
    ids = [request.id, *(stored.state.key or "" for stored in users)]
    names = _list_names(tx, ids, users)
    listed = orjson.dumps(ids).decode()
    belonging = Conditions(given=Given(BELONGS, (listed, listed), {}))
    guids = tx.erasures.matching((), belonging, "")
    quotes = Quotes(names)
    checkpoints = sum(delete_user_threads(tx.table(CheckpointTable), one) for one in ids)
    tx.erasures.erase_elsewhere(quotes)
    erased = dict.fromkeys([*guids, *_list_quoting_turns(tx, quotes)])
    erased |= dict.fromkeys(_list_facts(tx, list(erased), quotes))
    about = (context.now_ms, context.actor, request.reason)
    return Forgotten(*tx.erasures.erase(list(erased), "", about, names), checkpoints)


def _list_merged(tx: Transaction, user_id: str) -> list[StoredRecord]:
    """Return the user at the end of the chain of merges, and all users merged into it."""
    stored = find_user(tx, user_id)
    users = {} if stored is None else {stored.guid: stored}
    waiting = list(users.values())
    while waiting:
        for merged in tx.table(UserTable).merged_into(waiting.pop().state.key or ""):
            if merged.guid not in users:
                users[merged.guid] = merged
                waiting.append(merged)
    return list(users.values())


def _list_names(tx: Transaction, ids: list[str], users: list[StoredRecord]) -> list[str]:
    """Return the canonical ids and all identifiers that the users have or had."""
    names = [name for user_id in ids for name in (user_id, split_canonical(user_id)[1])]
    for stored in users:
        for state in tx.table(UserTable).states(stored):
            data = read_data(state)
            names += [str(data[name]) for name in IDENTIFIERS if data.get(name)]
    return list(dict.fromkeys(names))


def _list_quoting_turns(tx: Transaction, quotes: Quotes) -> list[str]:
    """Return the guids of turns and steps that quote an identifier, or have it as their source."""
    guids = []
    for name in quotes.names:
        for guid, content, source, data in tx.table(UserTable).turns(name):
            is_source = source.lower() in quotes.names
            if is_source or quotes.in_text(content) or quotes.in_text(data):
                guids.append(guid)
    return guids


def _list_facts(tx: Transaction, guids: list[str], quotes: Quotes) -> list[str]:
    """Return the guids of facts that quote an identifier, or were learned in an erased episode."""
    sources = {*guids, *tx.table(UserTable).executions(guids)}
    return [
        guid
        for guid, content, data in tx.table(UserTable).all_facts()
        if _find_source(data) in sources or quotes.in_text(content) or quotes.in_text(data)
    ]


def _find_source(data: str) -> str:
    """Return the source_episode_id in the data of a fact, "" if it has none."""
    fields = orjson.loads(data or "{}")
    return str(fields.get("source_episode_id") or "") if isinstance(fields, dict) else ""


@operation("users.delete_many", access="delete", mutates=True, store="memories", any_store=True)
def delete_many(tx: Transaction, request: DeleteMany, context: Context) -> Deleted:
    """Delete users. Unknown ids are ignored. records.restore can undo it.

    Facts and episodes of the users stay; users.forget erases them too.
    """
    return Deleted(tx.table(UserTable).delete(request.ids))
