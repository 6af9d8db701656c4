"""Procedures: how agents do something, with the conditions under which they apply.

The functions run inside the store's open transaction. Procedures of one agent and name are versions
of one record. Their counters are its tally.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import orjson
from pydantic import Field

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.agents.scopes import GLOBAL, MAX_ID_CHARACTERS, check_name, split_scope
from memrelay.memory.errors import RecordNotFound, VersionConflict
from memrelay.memory.operation import Context
from memrelay.memory.records.data import Data, checked, kept_data
from memrelay.memory.records.kinds import PROCEDURE_KIND
from memrelay.memory.records.record import Further, Record
from memrelay.memory.records.view import Guid, Reason, Versions, version_of
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import State, StoredRecord
from memrelay.memory.tallies import Tally
from memrelay.memory.timestamps import Moment, format_time

PROCEDURE_TYPES = ("workflow_graph", "prompt_template", "code_snippet", "tool_sequence")
SOURCES = ("human_taught", "self_learned", "evolved")
GOAL, CONTEXT = "goal_contains", "context_has"
# The share of successes of a procedure that was never used.
UNKNOWN_RATE = 0.5
AgentId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS, pattern=r"^[^\x00]*$")]
ProcedureName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]
Goal = Annotated[str, Field(max_length=65_536)]


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
    place = tx.procedures.find_to_write(scope, given.name)
    _check_version(place, given)
    content = f"{given.name}: {given.description}" if given.description else given.name
    data = orjson.dumps(checked(_data_of(given))).decode()
    if place is None:
        state = tx.procedures.insert(_new_state(given, scope, (content, data), context))
        return ProcedureSaved(view_procedure(state.record, state.further, Tally()), "created")
    state = tx.procedures.change(place, place.whole._replace(content=content, data=data))
    return ProcedureSaved(view_state(tx, state), "updated")


def use_procedure(tx: Transaction, use: UsedProcedure, context: Context) -> ProcedureView:
    """Count a use of a procedure with its outcome. Raises RecordNotFound."""
    place = fetch_procedure(tx, use.id)
    tx.tallies.count_use(use.id, context.now_ms)
    tx.tallies.count_outcome(use.id, is_good=use.success, took_ms=use.duration_ms)
    return view_state(tx, place.whole)


def retire_procedure(tx: Transaction, guid: str) -> ProcedureView:
    """Take a procedure out of use, and return it. Raises RecordNotFound."""
    place = fetch_procedure(tx, guid)
    state = place.whole
    data = kept_data(state.record, state.further)
    if data["is_active"]:
        after = orjson.dumps(data | {"is_active": False}).decode()
        state = tx.procedures.change(place, state._replace(data=after))
    return view_state(tx, state)


def match_procedure(
    tx: Transaction, agent_id: str, goal: str, context: Mapping[str, Any] | None = None
) -> ProcedureView | None:
    """Return the procedure in use that applies to a goal and succeeded most often, None if none
    applies. The agent `global` covers the procedures of all agents.
    """
    scope = "" if agent_id == GLOBAL else scope_of(agent_id)
    found = tx.procedures.by_success(scope)
    active = (one for one in found if kept_data(*one[:2])["is_active"])
    matching = (one for one in active if _applies(kept_data(*one[:2]), goal, context or {}))
    return next((view_procedure(*one) for one in matching), None)


def get_procedure(tx: Transaction, agent_id: str, name: str) -> ProcedureView:
    """Return the procedure with that id, else the one in use with that name. Raises
    RecordNotFound.
    """
    if (place := tx.procedures.by_guid(name)) is not None:
        return view_state(tx, place.whole)
    place = tx.procedures.find(scope_of(agent_id), name)
    if place is not None and (found := view_state(tx, place.whole)).is_active:
        return found
    raise _missing(f"the name {name!r} for agent {agent_id!r} and is in use")


def fetch_procedure(tx: Transaction, guid: str) -> StoredRecord:
    """Return the procedure with that id. Raises RecordNotFound."""
    if (place := tx.procedures.by_guid(guid)) is None:
        raise _missing(f"the id {guid!r}")
    return place


def scope_of(agent_id: str) -> str:
    """Return the scope of an agent's procedures."""
    return f"agent:{agent_id}"


def view_state(tx: Transaction, state: State) -> ProcedureView:
    """Return the view of a stored procedure with its counters."""
    return view_procedure(state.record, state.further, tx.tallies.find(state.guid))


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
