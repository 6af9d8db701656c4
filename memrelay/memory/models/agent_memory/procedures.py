"""Procedures: how agents do something, with the conditions under which they apply.

The functions run inside the store's open transaction. Procedures of one agent and name are versions
of one record.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.counters import Counters, CounterTable
from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.agent_memory import PROCEDURE_KIND
from memrelay.memory.models.agent_memory.scopes import (
    GLOBAL,
    Deleted,
    DeleteMany,
    GivenId,
    OptionalId,
    check_name,
    make_agent_scope,
    split_scope,
)
from memrelay.memory.models.agent_memory.table import ProcedureTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import Data, checked, kept_data, parse_data
from memrelay.memory.records.optimistic_locking import check_keyed_version, check_version
from memrelay.memory.records.paging import Limit, Offset
from memrelay.memory.records.reading import literal_kind, take_ordered_page
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import Guid, Reason, Versions, version_of

PROCEDURE_TYPES = ("workflow_graph", "prompt_template", "code_snippet", "tool_sequence")
SOURCES = ("human_taught", "self_learned", "evolved")
# The share of successes of a procedure that was never used.
UNKNOWN_RATE = 0.5
ProcedureName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Goal = Annotated[str, Field(max_length=65_536)]
IS_ACTIVE = "json_extract(r.data, '$.is_active')"
GOAL, CONTEXT = "goal_contains", "context_has"


@dataclass(frozen=True, slots=True)
class ProcedureView:
    """A procedure."""

    id: str
    """The guid of the procedure's record."""
    agent_id: str
    """The agent that has the procedure; `global` for all."""
    name: str
    """The name, unique for the agent."""
    description: str
    """What the procedure does."""
    trigger_conditions: dict[str, Any]
    """When the procedure applies."""
    procedure_type: str
    """workflow_graph, prompt_template, code_snippet or tool_sequence."""
    procedure_content: Any
    """The instructions: any JSON."""
    source: str
    """human_taught, self_learned or evolved."""
    parent: str | None
    """The id of the procedure from which it evolved."""
    is_active: bool
    """Whether the procedure is in use. A retired one matches nothing."""
    times_used: int
    times_succeeded: int
    times_failed: int
    success_rate: float
    """The share of successes; 0.5 for a procedure that was never used."""
    avg_duration_ms: float | None
    """The mean duration of the uses that had one, milliseconds."""
    last_used_at: Moment | None
    """When the procedure was used last."""
    created_at: Moment
    updated_at: Moment
    version: str
    """Changes with every write; a write can require it."""


def view_state(tx: Transaction, state: State) -> ProcedureView:
    """Return the view of a stored procedure with its counters."""
    return view_procedure(state.record, state.extras, tx.table(CounterTable).find(state.guid))


def view_procedure(record: Record, extras: RecordExtras, counters: Counters) -> ProcedureView:
    """Return the view of a procedure. Raises RecordDamaged."""
    data, name = kept_data(record, extras), extras.key or ""
    outcomes = counters.good + counters.bad
    return ProcedureView(
        record.guid,
        split_scope(record.scope)[1],
        name,
        record.content.removeprefix(name).removeprefix(": "),
        data["trigger_conditions"],
        data["procedure_type"],
        data["procedure_content"],
        data["source"],
        data["parent"],
        data["is_active"],
        counters.uses,
        counters.good,
        counters.bad,
        counters.good / outcomes if outcomes else UNKNOWN_RATE,
        counters.mean_ms,
        None if counters.used_at is None else format_time(counters.used_at),
        format_time(record.created_at),
        format_time(record.updated_at),
        version_of(record, extras),
    )


@dataclass(frozen=True, slots=True)
class SaveProcedure:
    """A procedure to write."""

    name: ProcedureName
    """The name. A new procedure of this name replaces the agent's earlier one."""
    procedure_type: str
    """workflow_graph, prompt_template, code_snippet or tool_sequence."""
    procedure_content: Any
    """The instructions: any JSON."""
    agent_id: GivenId = GLOBAL
    """The agent that has the procedure; `global` for all."""
    description: Annotated[str, Field(max_length=32_768)] = ""
    """What the procedure does."""
    trigger_conditions: Data = field(default_factory=dict)
    """When it applies. goal_contains: a text or a list; the goal has one of them.
    context_has: a text or a list; the context has all of these keys."""
    source: str = SOURCES[0]
    """human_taught, self_learned or evolved."""
    parent: Annotated[str, Field(max_length=128)] = ""
    """The id of the procedure from which it evolved."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Write only if the procedure has one of these versions."""


@dataclass(frozen=True, slots=True)
class ProcedureSaved:
    """The result of a write."""

    procedure: ProcedureView
    """The procedure after the write."""
    action: str
    """created or updated."""


@operation("procedures.save", access="write", mutates=True, store="memories", any_store=True)
def save(tx: Transaction, request: SaveProcedure, context: Context) -> ProcedureSaved:
    """Write a procedure under its name. The earlier one of the agent stays in the history.

    A retired procedure is in use again.

    Raises Refused: when the type or the source is unknown.
    Raises VersionConflict: when the procedure has another version.
    """
    check_name("procedure_type", request.procedure_type, PROCEDURE_TYPES)
    check_name("source", request.source, SOURCES)
    scope, table = make_agent_scope(request.agent_id), tx.table(ProcedureTable)
    stored = table.find_to_write(scope, request.name)
    check_keyed_version(f"the procedure {request.name!r}", stored, request.if_version)
    content = f"{request.name}: {request.description}" if request.description else request.name
    data = {
        "trigger_conditions": request.trigger_conditions,
        "procedure_type": request.procedure_type,
        "procedure_content": request.procedure_content,
        "source": request.source,
        "parent": request.parent or None,
        "is_active": True,
    }
    text = orjson.dumps(checked(data)).decode()
    if stored is not None:
        state = table.change(stored, stored.state._replace(content=content, data=text))
        return ProcedureSaved(view_state(tx, state), "updated")
    new = new_state(context.new_guid(), PROCEDURE_KIND, context.now_ms, context.actor)
    state = table.insert(new._replace(scope=scope, key=request.name, data=text, content=content))
    return ProcedureSaved(view_procedure(state.record, state.extras, Counters()), "created")


@dataclass(frozen=True, slots=True)
class GetProcedure:
    """The procedure to read."""

    id: ProcedureName
    """The id of the procedure, or the name of one that is in use."""
    agent_id: GivenId = GLOBAL
    """The agent that has a procedure of that name."""


@operation("procedures.get", access="read", mutates=False, store="memories", any_store=True)
def get(tx: Transaction, request: GetProcedure, context: Context) -> ProcedureView:
    """Return the procedure with that id, else the agent's procedure of that name.

    Raises RecordNotFound: when there is no such procedure, or that of the name is not in use.
    """
    table = tx.table(ProcedureTable)
    if (stored := table.by_guid(request.id)) is not None:
        return view_state(tx, stored.state)
    stored = table.find(make_agent_scope(request.agent_id), request.id)
    if stored is not None and (procedure := view_state(tx, stored.state)).is_active:
        return procedure
    raise _missing(f"the name {request.id!r} for agent {request.agent_id!r} and is in use")


def fetch_procedure(tx: Transaction, guid: str) -> StoredRecord:
    """Return the procedure with that id. Raises RecordNotFound."""
    if (stored := tx.table(ProcedureTable).by_guid(guid)) is None:
        raise _missing(f"the id {guid!r}")
    return stored


def _missing(which: str) -> RecordNotFound:
    return RecordNotFound(f"no procedure has {which}; use procedures.list to find procedures")


@dataclass(frozen=True, slots=True)
class ListProcedures:
    """The procedures to list, and the page."""

    agent_id: OptionalId = ""
    """Only procedures of this agent."""
    active_only: bool = False
    """Whether to leave out retired procedures."""
    order: Literal["created_at", "uses"] = "created_at"
    """The newest first, or the most used first."""
    limit: Limit = 50
    """The maximum number of procedures. A page of long procedures may have fewer."""
    offset: Offset = 0
    """The number of procedures to skip."""


@dataclass(frozen=True, slots=True)
class ProcedurePage:
    """A page of procedures."""

    items: tuple[ProcedureView, ...]
    total: int
    """The number of procedures on all pages."""


@operation("procedures.list", access="read", mutates=False, store="memories", any_store=True)
def list_procedures(tx: Transaction, request: ListProcedures, context: Context) -> ProcedurePage:
    """List procedures in pages, the newest or the most used first.

    Raises ResultTooLarge: when a procedure does not fit into an answer.
    """
    clauses, values = list[str](), list[str]()
    if request.agent_id:
        clauses.append("r.scope = ?")
        values.append(make_agent_scope(request.agent_id))
    if request.active_only:
        clauses.append(IS_ACTIVE)
    selected = Given(" AND ".join(clauses), tuple(values), {}) if clauses else None
    conditions = Conditions(given=literal_kind(PROCEDURE_KIND, selected))
    window = (request.limit, request.offset)
    records, total = take_ordered_page(tx, conditions, (request.order, "desc"), window, context)
    items = (view_procedure(*one, tx.table(CounterTable).find(one[0].guid)) for one in records)
    return ProcedurePage(tuple(items), total)


@dataclass(frozen=True, slots=True)
class MatchProcedure:
    """The goal for which to find a procedure."""

    goal: Goal
    """What the agent wants to do. Case does not matter."""
    context: dict[str, Any] = field(default_factory=dict)
    """What the agent knows; conditions ask for its keys."""
    agent_id: GivenId = GLOBAL
    """The agent whose procedures are considered; `global` covers all agents."""


@dataclass(frozen=True, slots=True)
class ProcedureMatch:
    """The procedure that applies."""

    procedure: ProcedureView | None
    """The procedure; null if none applies."""


@operation("procedures.match", access="read", mutates=False, store="memories", any_store=True)
def match(tx: Transaction, request: MatchProcedure, context: Context) -> ProcedureMatch:
    """Find the procedure that applies to a goal and succeeded most often.

    A procedure without conditions, or with an unknown one, never applies.
    """
    return ProcedureMatch(match_procedure(tx, request.agent_id, request.goal, request.context))


def match_procedure(
    tx: Transaction, agent_id: str, goal: str, context: Mapping[str, Any] | None = None
) -> ProcedureView | None:
    """Return the procedure in use that applies to a goal and succeeded most often, None if none
    applies. The agent `global` covers the procedures of all agents.
    """
    scope = "" if agent_id == GLOBAL else make_agent_scope(agent_id)
    for record, extras, counters in tx.table(ProcedureTable).by_success(scope):
        data = kept_data(record, extras)
        if data["is_active"] and _applies(data, goal, context or {}):
            return view_procedure(record, extras, counters)
    return None


def _applies(data: Mapping[str, Any], goal: str, context: Mapping[str, Any]) -> bool:
    """Return whether a procedure's conditions hold. None at all, or an unknown one, never hold."""
    conditions = data["trigger_conditions"]
    if not conditions or not conditions.keys() <= {GOAL, CONTEXT}:
        return False
    if GOAL in conditions:
        folded_goal = goal.casefold()
        if not any(text.casefold() in folded_goal for text in _texts(conditions[GOAL])):
            return False
    if CONTEXT in conditions:
        keys = list(_texts(conditions[CONTEXT]))
        return bool(keys) and all(key in context for key in keys)
    return True


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts of a condition, which is a text or a list, without empty ones."""
    if isinstance(value, str):
        value = [value]
    listed = value if isinstance(value, list) else []
    return (text for text in listed if isinstance(text, str) and text)


@dataclass(frozen=True, slots=True)
class UsedProcedure:
    """A use of a procedure."""

    id: Guid
    """The id of the procedure."""
    success: bool
    """Whether the use succeeded."""
    duration_ms: Annotated[int, Field(ge=0, le=10**12)] | None = None
    """How long it took, milliseconds."""


@operation("procedures.use", access="write", mutates=True, store="memories", any_store=True)
def use(tx: Transaction, used: UsedProcedure, context: Context) -> ProcedureView:
    """Count a use of a procedure with its outcome and duration. The count adds no history.

    Raises RecordNotFound: when the procedure does not exist.
    """
    stored = fetch_procedure(tx, used.id)
    counters = tx.table(CounterTable)
    counters.count_use(used.id, context.now_ms)
    counters.count_outcome(used.id, is_good=used.success, took_ms=used.duration_ms)
    return view_state(tx, stored.state)


@dataclass(frozen=True, slots=True)
class RetireProcedure:
    """The procedure to take out of use."""

    id: Guid
    """The id of the procedure."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Retire only if the procedure has one of these versions."""


@operation("procedures.retire", access="write", mutates=True, store="memories", any_store=True)
def retire(tx: Transaction, request: RetireProcedure, context: Context) -> ProcedureView:
    """Take a procedure out of use. It stays in lists, and a save puts it into use again.

    Raises RecordNotFound: when the procedure does not exist.
    Raises VersionConflict: when the procedure has another version.
    """
    stored = fetch_procedure(tx, request.id)
    state = stored.state
    check_version(state.record, state.extras, request.if_version)
    data = parse_data(state.data, state.guid)
    if data["is_active"]:
        retired = orjson.dumps(data | {"is_active": False}).decode()
        state = tx.table(ProcedureTable).change(stored, state._replace(data=retired))
    return view_state(tx, state)


@operation(
    "procedures.delete_many", access="delete", mutates=True, store="memories", any_store=True
)
def delete_many(tx: Transaction, request: DeleteMany, context: Context) -> Deleted:
    """Delete procedures. Unknown ids are ignored. records.restore can undo each deletion."""
    return Deleted(tx.table(ProcedureTable).delete(request.ids))
