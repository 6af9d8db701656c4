"""Facts: what agents know under a key, for everyone, an agent, a user or a session.

The functions run inside the store's open transaction.
"""

import re
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

import orjson
from pydantic import Field, ValidationError

from memrelay.memory.engine.counters import Counters, CounterTable
from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, Refused, ValueTooLarge
from memrelay.memory.models.agent_memory import FACT_KIND
from memrelay.memory.models.agent_memory.scopes import (
    GLOBAL,
    SCOPES,
    Deleted,
    DeleteMany,
    Ids,
    OptionalId,
    check_name,
    split_scope,
)
from memrelay.memory.models.agent_memory.table import (
    FactFilter,
    FactTable,
    StoredFact,
    folded_text,
)
from memrelay.memory.models.agent_memory.user_records import current_id
from memrelay.memory.operations import Context, Receipt, operation
from memrelay.memory.records.data import MOST_BYTES, checked, kept_data, parse_data
from memrelay.memory.records.optimistic_locking import check_keyed_version, check_version
from memrelay.memory.records.paging import Limit, Offset
from memrelay.memory.records.reading import literal_kind, take_ordered_page
from memrelay.memory.records.record import PLAIN
from memrelay.memory.records.view import (
    End,
    Guid,
    Reason,
    TimeOrNull,
    Versions,
    format_optional,
    time_ms,
    version_of,
    with_period,
)

FACT_TYPES = (
    "user_preference",
    "world_knowledge",
    "self_knowledge",
    "correction",
    "relationship",
)
DEFAULT_TYPE: Final = "world_knowledge"
MAX_KEY_CHARACTERS = 255
# Bytes that the other fields of `data` may take.
FIELD_BYTES = 3072
# One line of text.
KEY_PATTERN = r"^[^\x00-\x1f]+$"
FactKey = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS, pattern=KEY_PATTERN)]
KEY = re.compile(rf"[^\x00-\x1f]{{1,{MAX_KEY_CHARACTERS}}}")
Confidence = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Provenance = Annotated[str, Field(max_length=255)]
Query = Annotated[str, Field(max_length=1024)]


@dataclass(frozen=True, slots=True)
class FactView:
    """A fact."""

    id: str
    """The guid of the fact's record."""
    scope: str
    """Who sees the fact: session, user, agent or global."""
    agent_id: str | None
    """The agent of a fact with the scope agent."""
    user_id: str | None
    """The user of a fact with the scope user: a canonical id."""
    session_id: str | None
    """The session of a fact with the scope session."""
    key: str
    """The key, unique within the scope."""
    value: Any
    """The value: any JSON."""
    fact_type: str
    """The type of knowledge."""
    confidence: float
    """0 to 1: the confidence given, lowered by contradictions to half of it at most."""
    times_confirmed: int
    """How often the fact was written; 1 for a new one."""
    times_contradicted: int
    """How often it was written again with another value."""
    access_count: int
    """How often the fact was recalled."""
    last_accessed: Moment | None
    """When the fact was recalled last."""
    source_episode_id: str | None
    """The episode in which the value was learned."""
    source_description: str | None
    """Where the value comes from."""
    valid_from: Moment | None
    """Since when the value is true; null for ever."""
    valid_to: Moment | None
    """Until when the value is true; null for open."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


def view_fact(stored: StoredFact) -> FactView:
    """Return the view of a stored fact. Raises RecordDamaged."""
    record, extras, counters = stored
    data = kept_data(record, extras)
    name, id_ = split_scope(record.scope)
    by_scope = {name: id_}
    good, bad = counters.good, counters.bad
    return FactView(
        record.guid,
        name,
        by_scope.get("agent"),
        by_scope.get("user"),
        by_scope.get("session"),
        extras.key or "",
        data.get("value"),
        data.get("fact_type", DEFAULT_TYPE),
        data.get("base", 1.0) * (good + 1) / (good + bad + 1),
        good + 1,  # the first write has no counter
        bad,
        counters.uses,
        None if counters.used_at is None else format_time(counters.used_at),
        data.get("source_episode_id"),
        data.get("source_description"),
        format_optional(extras.valid_from),
        format_optional(extras.valid_to),
        format_time(record.created_at),
        format_time(record.updated_at),
        version_of(record, extras),
    )


def view_state(tx: Transaction, state: State) -> FactView:
    """Return the view of a stored fact. Raises RecordDamaged."""
    counters = tx.table(CounterTable).find(state.guid)
    return view_fact(StoredFact(state.record, state.extras, counters))


@dataclass(frozen=True, slots=True)
class FactWritten:
    """The result of a write."""

    fact: FactView
    """The fact after the write."""
    action: str
    """created, updated or skipped."""


@dataclass(frozen=True, slots=True)
class SetFact:
    """A fact to write."""

    key: FactKey
    """The key."""
    value: Any
    """The value: any JSON."""
    fact_type: str = DEFAULT_TYPE
    """user_preference, world_knowledge, self_knowledge, correction or relationship."""
    scope: str = GLOBAL
    """Who sees the fact: session, user, agent or global. All but global need the id below."""
    agent_id: OptionalId = ""
    """The agent, for the scope agent."""
    user_id: OptionalId = ""
    """The canonical id of the user, for the scope user."""
    session_id: OptionalId = ""
    """The session, for the scope session."""
    confidence: Confidence | None = None
    """How reliable the value is, 0 to 1. By default 1 for a new fact, else as before."""
    overwrite: bool = True
    """Whether to replace the value of an existing fact. Otherwise it stays, and action is
    skipped."""
    source_episode_id: Provenance | None = None
    """The episode in which the value was learned."""
    source_description: Provenance | None = None
    """Where the value comes from."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Write only if the fact has one of these versions."""
    valid_from: End | None = None
    """The time from which on the value is true; "" means any.

    By default any for a new fact, the time of the write for another value, else as before."""
    valid_to: End | None = None
    """The time at which the value stops being true; "" means open.

    By default open for a new fact and for another value, else as before."""


@operation("facts.set", access="write", mutates=True, store="memories", any_store=True)
def set_fact(tx: Transaction, request: SetFact, context: Context) -> FactWritten:
    """Write a fact under its key. An overwritten value stays in the history.

    Raises Refused: when the scope or the type is unknown, the id of the scope is missing, or the
    period of validity is invalid.
    Raises ValueTooLarge: when the value is too long.
    Raises VersionConflict: when the fact has another version.
    """
    request = replace(request, user_id=current_id(tx, request.user_id))
    scope = _get_ids(request).scope(request.scope)
    check_name("fact_type", request.fact_type, FACT_TYPES)
    table = tx.table(FactTable)
    stored = table.find_to_write(scope, request.key)
    check_keyed_version(f"the fact {request.key!r}", stored, request.if_version)
    if stored is None:
        content, data = _encode(request, {})
        new = new_state(context.new_guid(), FACT_KIND, context.now_ms, context.actor)
        owner = request.user_id if request.scope == "user" else None
        period = with_period(PLAIN, request.valid_from, request.valid_to)
        state = table.insert(
            new._replace(
                scope=scope,
                key=request.key,
                owner=owner,
                data=data,
                valid_from=period.valid_from,
                valid_to=period.valid_to,
                content=content,
            )
        )
        fact = view_fact(StoredFact(state.record, state.extras, Counters()))
        return FactWritten(fact, "created")
    if not request.overwrite:
        return FactWritten(view_state(tx, stored.state), "skipped")
    before = parse_data(stored.state.data, stored.guid)
    content, data = _encode(request, before)
    is_contradicted = _json(before["value"]) != _json(request.value)
    begin, end = _get_period(request, stored.state, context, is_new=is_contradicted)
    after = stored.state._replace(content=content, data=data, valid_from=begin, valid_to=end)
    state = table.change(stored, after, event="fact.contradicted" if is_contradicted else "")
    # Each write confirms the fact, and another value also contradicts it.
    counters = tx.table(CounterTable)
    counters.count_outcome(stored.guid, is_good=True)
    if is_contradicted:
        counters.count_outcome(stored.guid, is_good=False)
    return FactWritten(view_state(tx, state), "updated")


def _get_period(
    request: SetFact, before: State, context: Context, *, is_new: bool
) -> tuple[int | None, int | None]:
    """Return the period of a value, Unix ms. A new value is valid from now on. Raises Refused."""
    extras = before.extras
    if is_new:
        extras = extras._replace(valid_from=None, valid_to=None)
    extras = with_period(extras, request.valid_from, request.valid_to)
    begin, end = extras.valid_from, extras.valid_to
    if is_new and request.valid_from is None and end is None:
        begin = context.now_ms
    return begin, end


def _get_ids(request: "SetFact | FactName | SearchFacts") -> Ids:
    return Ids(request.agent_id, request.user_id, request.session_id)


def _encode(request: SetFact, before: dict[str, Any]) -> tuple[str, str]:
    """Return the content and the `data` of a fact. Raises Refused and ValueTooLarge.

    `before` is the present `data`, {} for a new fact.
    """
    _check_value(request.value)
    base = before.get("base", 1.0) if request.confidence is None else request.confidence
    is_same = bool(before) and _json(before["value"]) == _json(request.value)
    data = {"value": request.value, "fact_type": request.fact_type, "base": float(base)}
    for name in ("source_episode_id", "source_description"):
        # They belong to the value.
        source = getattr(request, name) or (before.get(name) if is_same else None)
        data |= {name: source} if source else {}
    text = value_text(request.value)
    folded = folded_text(request.key, text)
    with_text = _json(data if folded is None else data | {"folded": folded})
    # Without its folded text, a long value is found only as it is written.
    stored = with_text if len(with_text) <= MOST_BYTES else _json(data)
    return f"{request.key}: {text}", stored.decode()


def _check_value(value: Any) -> None:
    """Raise Refused or ValueTooLarge if `data` cannot hold the value."""
    try:
        checked({"value": value})
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        path = ".".join(map(str, fault["loc"])) or "value"
        if fault["loc"]:
            raise Refused(f"`{path}`: {fault['msg']}") from error
    if (size := len(_json(value))) > MOST_BYTES - FIELD_BYTES:
        raise ValueTooLarge(
            f"the value has {size} bytes as JSON, and a fact has at most "
            f"{MOST_BYTES - FIELD_BYTES}; store less, or split it over several keys"
        )


def value_text(value: Any) -> str:
    """Return a value as people read it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else _json(value).decode()


def _json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def check_key(key: str) -> None:
    """Raise Refused if a fact cannot have that key."""
    if not KEY.fullmatch(key):
        raise Refused(
            f"a key is one line of 1 to {MAX_KEY_CHARACTERS} characters; shorten {key[:64]!r}"
        )


@dataclass(frozen=True, slots=True)
class FactName:
    """A key to look up in the scopes whose ids are given, from session to global."""

    key: FactKey
    """The key."""
    agent_id: OptionalId = ""
    """The agent whose facts are visible."""
    user_id: OptionalId = ""
    """The user whose facts are visible."""
    session_id: OptionalId = ""
    """The session whose facts are visible."""


@operation("facts.get", access="read", mutates=False, store="memories", any_store=True)
def get(tx: Transaction, request: FactName, context: Context) -> FactView:
    """Return the fact of the session, else of the user, the agent, or everyone.

    Raises RecordNotFound: when no visible fact has the key.
    """
    if (stored := _find(tx, request)) is None:
        raise missing_fact(f"the key {request.key!r}")
    return view_state(tx, stored.state)


def _find(tx: Transaction, request: FactName) -> StoredRecord | None:
    """Return the fact of the most specific visible scope, None if no scope has the key."""
    for scope in _visible(tx, _get_ids(request)):
        if (stored := tx.table(FactTable).find(scope, request.key)) is not None:
            return stored
    return None


def _visible(tx: Transaction, ids: Ids) -> list[str]:
    """Return the visible scopes. A merged user has the scopes of the other user."""
    return ids._replace(user_id=current_id(tx, ids.user_id)).visible


def missing_fact(which: str) -> RecordNotFound:
    """Return the error for a fact that does not exist."""
    return RecordNotFound(f"no fact has {which}; use facts.list or facts.search to find facts")


@dataclass(frozen=True, slots=True)
class RecallFact(FactName):
    """The fact to recall, by its key."""

    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


@operation("facts.recall", access="read", mutates=True, store="memories", any_store=True)
def recall(tx: Transaction, request: RecallFact, context: Context) -> FactView:
    """Return a fact as facts.get does, and count the access. The count adds no history.

    Raises RecordNotFound: when no visible fact has the key.
    """
    if (fact := recall_facts(tx, request, context)) is None:
        raise missing_fact(f"the key {request.key!r}")
    return fact


def recall_facts(tx: Transaction, request: FactName, context: Context) -> FactView | None:
    """Return the fact of the most specific visible scope, None for none, and count the access."""
    stored = _find(tx, request)
    if stored is None:
        return None
    tx.table(CounterTable).count_use(stored.guid, context.now_ms)
    return view_state(tx, stored.state)


@dataclass(frozen=True, slots=True)
class SearchFacts:
    """A search in the facts of the scopes whose ids are given, and in the global ones."""

    query: Query
    """Words in this order within the key or the value, or whole words in any order. It has no
    syntax."""
    agent_id: OptionalId = ""
    """The agent whose facts are visible."""
    user_id: OptionalId = ""
    """The user whose facts are visible."""
    session_id: OptionalId = ""
    """The session whose facts are visible."""
    fact_types: tuple[str, ...] = ()
    """Only facts of these types."""
    min_confidence: Confidence = 0.5
    """Only facts with at least this confidence."""
    limit: Limit = 10
    """The maximum number of facts."""
    valid_at: TimeOrNull = ""
    """Facts that are not valid at this time come last; by default now."""
    receipt: Receipt = False
    """Whether to leave a receipt (docs/receipts.md), or the id of the answer that will use it."""


@dataclass(frozen=True, slots=True)
class FoundFacts:
    """Facts, the best or the newest first."""

    items: tuple[FactView, ...]


@operation(
    "facts.search",
    access="search",
    mutates=False,
    store="memories",
    any_store=True,
    takes_as_of=True,
)
def search_facts(tx: Transaction, request: SearchFacts, context: Context) -> FoundFacts:
    """Find visible facts, the most reliable first, then those with the words in their key.

    Raises Refused: when a type is unknown, or `valid_at` is no time.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    for name in request.fact_types:
        check_name("fact_type", name, FACT_TYPES)
    visible = _visible(tx, _get_ids(request))
    valid_at = time_ms("valid_at", request.valid_at)
    within = FactFilter(
        visible, request.fact_types, request.min_confidence, request.limit, valid_at
    )
    tx.records.flush()
    with tx.time_limit.bounded():
        return FoundFacts(tuple(map(view_fact, tx.table(FactTable).search(request.query, within))))


def visible_facts(tx: Transaction, ids: Ids, limit: int) -> list[FactView]:
    """Return the facts that are visible with these ids, the newest change first."""
    return list(map(view_fact, tx.table(FactTable).newest(_visible(tx, ids), limit)))


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The facts to list, and the page."""

    scope: str = ""
    """Only facts of this scope: session, user, agent or global."""
    fact_type: str = ""
    """Only facts of this type."""
    agent_id: OptionalId = ""
    """Only facts of this agent."""
    user_id: OptionalId = ""
    """Only facts of this user."""
    session_id: OptionalId = ""
    """Only facts of this session."""
    query: Query = ""
    """Only facts that this query finds, as in facts.search. The order stays the same."""
    limit: Limit = 50
    """The maximum number of facts. A page of long facts may have fewer."""
    offset: Offset = 0
    """The number of facts to skip."""
    valid_at: TimeOrNull = ""
    """Only facts that are valid at this time: from `valid_from` until before `valid_to`."""


@dataclass(frozen=True, slots=True)
class FactPage:
    """A page of facts."""

    items: tuple[FactView, ...]
    total: int
    """The number of facts on all pages."""


@operation(
    "facts.list", access="read", mutates=False, store="memories", any_store=True, takes_as_of=True
)
def list_facts(tx: Transaction, request: ListFacts, context: Context) -> FactPage:
    """List facts in pages, the newest change first. Of equal times, the later arrival is first.

    Raises Refused: when the scope or the type is unknown, or `valid_at` is no time.
    Raises ResultTooLarge: when a fact does not fit into an answer.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    request = replace(request, user_id=current_id(tx, request.user_id))
    valid_at = time_ms("valid_at", request.valid_at)
    given = literal_kind(FACT_KIND, _filter(tx, request))
    conditions = Conditions(given=given, valid_at_ms=valid_at)
    window = (request.limit, request.offset)
    with tx.bounded_search():
        records, total = take_ordered_page(tx, conditions, ("updated_at", "desc"), window, context)
    counters = tx.table(CounterTable)
    facts = (view_fact(StoredFact(*one, counters.find(one[0].guid))) for one in records)
    return FactPage(tuple(facts), total)


def _filter(tx: Transaction, request: ListFacts) -> Given | None:
    """Return the conditions that are set, None if none is. Raises Refused."""
    clauses, values = list[str](), list[str]()
    if request.scope:
        check_name("scope", request.scope, SCOPES)
        # A scope has an id after a colon, except `global`.
        clauses.append("(r.scope = ? OR (r.scope >= ? AND r.scope < ?))")
        values += [request.scope, f"{request.scope}:", f"{request.scope};"]
    if request.fact_type:
        check_name("fact_type", request.fact_type, FACT_TYPES)
        clauses.append("json_extract(r.data, '$.fact_type') = ?")
        values.append(request.fact_type)
    for name in ("agent", "user", "session"):
        if id_ := getattr(request, f"{name}_id"):
            clauses.append("r.scope = ?")
            values.append(f"{name}:{id_}")
    if request.query:
        clause, of_query = tx.table(FactTable).matching(request.query)
        clauses.append(clause)
        values += of_query
    return Given(" AND ".join(clauses), tuple(values), {}) if clauses else None


@dataclass(frozen=True, slots=True)
class DeleteFact:
    """The fact to delete."""

    id: Guid
    """The id of the fact."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Delete only if the fact has one of these versions."""


@operation("facts.delete", access="delete", mutates=True, store="memories", any_store=True)
def delete(tx: Transaction, request: DeleteFact, context: Context) -> None:
    """Delete a fact. records.restore can undo it.

    Raises RecordNotFound: when the fact does not exist.
    Raises VersionConflict: when the fact has another version.
    """
    stored = tx.table(FactTable).by_guid(request.id)
    if stored is None:
        raise missing_fact(f"the id {request.id!r}")
    check_version(stored.state.record, stored.state.extras, request.if_version)
    tx.records.delete(stored)


@operation("facts.delete_many", access="delete", mutates=True, store="memories", any_store=True)
def delete_many(tx: Transaction, request: DeleteMany, context: Context) -> Deleted:
    """Delete facts. Unknown ids are ignored. records.restore can undo each deletion."""
    return Deleted(tx.table(FactTable).delete(request.ids))
