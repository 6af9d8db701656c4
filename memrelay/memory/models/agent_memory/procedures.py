"""Procedures: how agents do something, with the conditions under which they apply.

The functions run inside the store's open transaction. Procedures of one agent and name are versions
of one record. Their counters are its tally.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from memrelay.memory.engine.conditions import Conditions, Given
from memrelay.memory.engine.counters import Tally, TallyTable
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound, VersionConflict
from memrelay.memory.models.agent_memory.deletion import Deleted, DeleteMany
from memrelay.memory.models.agent_memory.scopes import (
    GLOBAL,
    MAX_ID_CHARACTERS,
    OptionalId,
    check_name,
    split_scope,
)
from memrelay.memory.models.agent_memory.table import ProcedureTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import LARGEST, Data, checked, kept_data
from memrelay.memory.records.kinds import PROCEDURE_KIND
from memrelay.memory.records.reading import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Guid, Reason, Versions, version_of
from memrelay.memory.records.writing import check_version

PROCEDURE_TYPES = ("workflow_graph", "prompt_template", "code_snippet", "tool_sequence")
SOURCES = ("human_taught", "self_learned", "evolved")
# The share of successes of a procedure that was never used.
UNKNOWN_RATE = 0.5
AgentId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
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


@dataclass(frozen=True, slots=True)
class SaveProcedure:
    """A procedure to write."""

    name: ProcedureName
    """The name. A new procedure of this name replaces the agent's earlier one."""
    procedure_type: str
    """workflow_graph, prompt_template, code_snippet or tool_sequence."""
    procedure_content: Any
    """The instructions: any JSON."""
    agent_id: AgentId = GLOBAL
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


@dataclass(frozen=True, slots=True)
class UsedProcedure:
    """A use of a procedure."""

    id: Guid
    """The id of the procedure."""
    success: bool
    """Whether the use succeeded."""
    duration_ms: Annotated[int, Field(ge=0, le=10**12)] | None = None
    """How long it took, milliseconds."""


def save_procedure(tx: Transaction, given: SaveProcedure, context: Context) -> ProcedureSaved:
    """Write a procedure under its name. The earlier one stays in the history.

    Raises Refused: when the type or the source is unknown.
    Raises ValidationError: when the instructions exceed the bounds of `data`.
    Raises VersionConflict: when the procedure has another version.
    """
    check_name("procedure_type", given.procedure_type, PROCEDURE_TYPES)
    check_name("source", given.source, SOURCES)
    scope = scope_of(given.agent_id)
    place = tx.table(ProcedureTable).find_to_write(scope, given.name)
    _check_version(place, given)
    content = f"{given.name}: {given.description}" if given.description else given.name
    data = orjson.dumps(checked(_data_of(given))).decode()
    if place is None:
        state = tx.table(ProcedureTable).insert(_new_state(given, scope, (content, data), context))
        return ProcedureSaved(view_procedure(state.record, state.further, Tally()), "created")
    state = tx.table(ProcedureTable).change(place, place.whole._replace(content=content, data=data))
    return ProcedureSaved(view_state(tx, state), "updated")


def use_procedure(tx: Transaction, use: UsedProcedure, context: Context) -> ProcedureView:
    """Count a use of a procedure with its outcome. Raises RecordNotFound."""
    place = fetch_procedure(tx, use.id)
    tx.table(TallyTable).count_use(use.id, context.now_ms)
    tx.table(TallyTable).count_outcome(use.id, is_good=use.success, took_ms=use.duration_ms)
    return view_state(tx, place.whole)


def retire_procedure(tx: Transaction, guid: str) -> ProcedureView:
    """Take a procedure out of use, and return it. Raises RecordNotFound."""
    place = fetch_procedure(tx, guid)
    state = place.whole
    data = kept_data(state.record, state.further)
    if data["is_active"]:
        after = orjson.dumps(data | {"is_active": False}).decode()
        state = tx.table(ProcedureTable).change(place, state._replace(data=after))
    return view_state(tx, state)


def match_procedure(
    tx: Transaction, agent_id: str, goal: str, context: Mapping[str, Any] | None = None
) -> ProcedureView | None:
    """Return the procedure in use that applies to a goal and succeeded most often, None if none
    applies. The agent `global` covers the procedures of all agents.
    """
    scope = "" if agent_id == GLOBAL else scope_of(agent_id)
    found = tx.table(ProcedureTable).by_success(scope)
    active = (one for one in found if kept_data(*one[:2])["is_active"])
    matching = (one for one in active if _applies(kept_data(*one[:2]), goal, context or {}))
    return next((view_procedure(*one) for one in matching), None)


def get_procedure(tx: Transaction, agent_id: str, name: str) -> ProcedureView:
    """Return the procedure with that id, else the one in use with that name. Raises
    RecordNotFound.
    """
    if (place := tx.table(ProcedureTable).by_guid(name)) is not None:
        return view_state(tx, place.whole)
    place = tx.table(ProcedureTable).find(scope_of(agent_id), name)
    if place is not None and (found := view_state(tx, place.whole)).is_active:
        return found
    raise _missing(f"the name {name!r} for agent {agent_id!r} and is in use")


def fetch_procedure(tx: Transaction, guid: str) -> StoredRecord:
    """Return the procedure with that id. Raises RecordNotFound."""
    if (place := tx.table(ProcedureTable).by_guid(guid)) is None:
        raise _missing(f"the id {guid!r}")
    return place


def scope_of(agent_id: str) -> str:
    """Return the scope of an agent's procedures."""
    return f"agent:{agent_id}"


def view_state(tx: Transaction, state: State) -> ProcedureView:
    """Return the view of a stored procedure with its counters."""
    return view_procedure(state.record, state.further, tx.table(TallyTable).find(state.guid))


def view_procedure(record: Record, further: Further, tally: Tally) -> ProcedureView:
    """Return the view of a procedure. Raises RecordDamaged."""
    data, name = kept_data(record, further), further.key or ""
    outcomes = tally.good + tally.bad
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
        tally.uses,
        tally.good,
        tally.bad,
        tally.good / outcomes if outcomes else UNKNOWN_RATE,
        tally.mean_ms,
        None if tally.used_at is None else format_time(tally.used_at),
        format_time(record.created_at),
        format_time(record.updated_at),
        version_of(record, further),
    )


def _data_of(given: SaveProcedure) -> dict[str, Any]:
    return {
        "trigger_conditions": given.trigger_conditions,
        "procedure_type": given.procedure_type,
        "procedure_content": given.procedure_content,
        "source": given.source,
        "parent": given.parent or None,
        "is_active": True,
    }


def _check_version(place: StoredRecord | None, given: SaveProcedure) -> None:
    """Raise VersionConflict if the procedure has none of the allowed versions; () allows all."""
    version = "" if place is None else version_of(place.whole.record, place.whole.further)
    if given.if_version and version not in given.if_version:
        found = f"has version {version}" if version else "does not exist"
        raise VersionConflict(
            f"the procedure {given.name!r} {found}, not the expected one; read it again and retry "
            "with its version"
        )


def _new_state(
    given: SaveProcedure, scope: str, stored: tuple[str, str], context: Context
) -> State:
    content, data = stored
    new = new_state(context.new_guid(), PROCEDURE_KIND, context.now_ms, context.actor)
    return new._replace(scope=scope, key=given.name, data=data, content=content)


def _missing(which: str) -> RecordNotFound:
    return RecordNotFound(f"no procedure has {which}; use procedures.list to find procedures")


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
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return (text for text in given if isinstance(text, str) and text)


@operation("procedures.save", access="write", mutates=True, home="memories", any_store=True)
def save(tx: Transaction, given: SaveProcedure, context: Context) -> ProcedureSaved:
    """Write a procedure under its name. The earlier one of the agent stays in the history.

    A retired procedure is in use again.

    Raises Refused: when the type or the source is unknown.
    Raises VersionConflict: when the procedure has another version.
    """
    return save_procedure(tx, given, context)


@dataclass(frozen=True, slots=True)
class GetProcedure:
    """The procedure to read."""

    id: ProcedureName
    """The id of the procedure, or the name of one that is in use."""
    agent_id: AgentId = GLOBAL
    """The agent that has a procedure of that name."""


@operation("procedures.get", access="read", mutates=False, home="memories", any_store=True)
def get(tx: Transaction, wanted: GetProcedure, context: Context) -> ProcedureView:
    """Return the procedure with that id, else the agent's procedure of that name.

    Raises RecordNotFound: when there is no such procedure, or that of the name is not in use.
    """
    return get_procedure(tx, wanted.agent_id, wanted.id)


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
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of procedures to skip."""


@dataclass(frozen=True, slots=True)
class ProcedurePage:
    """A page of procedures."""

    items: tuple[ProcedureView, ...]
    total: int
    """The number of procedures on all pages."""


@operation("procedures.list", access="read", mutates=False, home="memories", any_store=True)
def list_procedures(tx: Transaction, wanted: ListProcedures, context: Context) -> ProcedurePage:
    """List procedures in pages, the newest or the most used first.

    Raises ResultTooLarge: when a procedure does not fit into an answer.
    """
    clauses, values = ["r.scope = ?"] * bool(wanted.agent_id), list[str]()
    values += [scope_of(wanted.agent_id)] * bool(wanted.agent_id)
    clauses += [IS_ACTIVE] * wanted.active_only
    given = Given(" AND ".join(clauses), tuple(values), {}) if clauses else None
    conditions = Conditions(given=literal_kind(PROCEDURE_KIND, given))
    window = (wanted.limit, wanted.offset)
    found, total = take_ordered_page(tx, conditions, (wanted.order, "desc"), window, context)
    items = (view_procedure(*one, tx.table(TallyTable).find(one[0].guid)) for one in found)
    return ProcedurePage(tuple(items), total)


@dataclass(frozen=True, slots=True)
class MatchProcedure:
    """The goal for which to find a procedure."""

    goal: Goal
    """What the agent wants to do. Case does not matter."""
    context: dict[str, Any] = field(default_factory=dict)
    """What the agent knows; conditions ask for its keys."""
    agent_id: AgentId = GLOBAL
    """The agent whose procedures are considered; `global` covers all agents."""


@dataclass(frozen=True, slots=True)
class ProcedureMatch:
    """The procedure that applies."""

    procedure: ProcedureView | None
    """The procedure; null if none applies."""


@operation("procedures.match", access="read", mutates=False, home="memories", any_store=True)
def match(tx: Transaction, wanted: MatchProcedure, context: Context) -> ProcedureMatch:
    """Find the procedure that applies to a goal and succeeded most often.

    A procedure without conditions, or with an unknown one, never applies.
    """
    return ProcedureMatch(match_procedure(tx, wanted.agent_id, wanted.goal, wanted.context))


@operation("procedures.use", access="write", mutates=True, home="memories", any_store=True)
def use(tx: Transaction, used: UsedProcedure, context: Context) -> ProcedureView:
    """Count a use of a procedure with its outcome and duration. The count adds no history.

    Raises RecordNotFound: when the procedure does not exist.
    """
    return use_procedure(tx, used, context)


@dataclass(frozen=True, slots=True)
class RetireProcedure:
    """The procedure to take out of use."""

    id: Guid
    """The id of the procedure."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Retire only if the procedure has one of these versions."""


@operation("procedures.retire", access="write", mutates=True, home="memories", any_store=True)
def retire(tx: Transaction, target: RetireProcedure, context: Context) -> ProcedureView:
    """Take a procedure out of use. It stays in lists, and a save puts it into use again.

    Raises RecordNotFound: when the procedure does not exist.
    Raises VersionConflict: when the procedure has another version.
    """
    state = fetch_procedure(tx, target.id).whole
    check_version(state.record, state.further, target.if_version)
    return retire_procedure(tx, target.id)


@operation("procedures.delete_many", access="delete", mutates=True, home="memories", any_store=True)
def delete_many(tx: Transaction, target: DeleteMany, context: Context) -> Deleted:
    """Delete procedures. Unknown ids are ignored. records.restore can undo each deletion."""
    return Deleted(tx.table(ProcedureTable).delete(target.ids))
