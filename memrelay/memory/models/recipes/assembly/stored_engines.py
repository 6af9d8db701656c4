"""Read and write rule engines in the home `recipes`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import Refused
from memrelay.memory.models.recipes.assembly.engines import Engine, Rule, load_engine
from memrelay.memory.models.recipes.assembly.faults import InputFaults
from memrelay.memory.models.recipes.objects import SCOPE, add_object, find_object
from memrelay.memory.models.recipes.records import RecipeTables
from memrelay.memory.operations import Context
from memrelay.memory.records.view import version_of

MAX_ENGINES = 100


@dataclass(frozen=True, slots=True)
class EngineView:
    """A rule engine."""

    id: str
    """The id."""
    name: str
    """The name."""
    description: str
    """The purpose of the engine."""
    enabled: bool
    """Whether an assembly evaluates it without naming it."""
    rules: tuple[Rule, ...]
    """The rules."""
    version: str
    """Changes with every edit; an edit can require it."""
    created_at: Moment
    updated_at: Moment


def view_engine(state: State) -> EngineView:
    """Return the view of a stored engine."""
    engine, record = load_engine(state.content), state.record
    return EngineView(
        engine.id,
        engine.name,
        engine.description,
        engine.enabled,
        engine.rules,
        version_of(record, state.extras),
        format_time(record.created_at),
        format_time(record.updated_at),
    )


def find_engine(tx: Transaction, ident: str) -> StoredRecord:
    """Return a stored engine. Raises RecordNotFound."""
    return find_object(tx.table(RecipeTables).rule_engines, ident)


def list_engines(tx: Transaction) -> Iterator[State]:
    """Yield all stored engines in the order of their ids."""
    return (
        place.state for place in tx.table(RecipeTables).rule_engines.page(SCOPE, "", MAX_ENGINES)
    )


def add_engine(tx: Transaction, engine: Engine, guid: str, context: Context) -> State:
    """Store a new engine.

    Raises NameTaken: when an engine has the id.
    Raises Refused: when there are too many engines.
    """
    table = tx.table(RecipeTables).rule_engines
    if table.count(SCOPE) >= MAX_ENGINES:
        raise Refused(f"there are {MAX_ENGINES} rule engines, the maximum; delete one first")
    return add_object(table, engine.id, engine.as_json(), context, guid)


def choose_engines(tx: Transaction, named: Any, faults: InputFaults) -> list[Engine]:
    """Return the named engines in their order, even disabled ones, or else all enabled engines."""
    if named is None:
        engines = [load_engine(state.content) for state in list_engines(tx)]
        return [engine for engine in engines if engine.enabled]
    chosen = dict[str, Engine]()
    for at, ident in enumerate(faults.take_list(named, ("rule_engine_ids",), MAX_ENGINES)):
        name = faults.take_text(ident, ("rule_engine_ids", at), 64, needed=True)
        place = tx.table(RecipeTables).rule_engines.find(SCOPE, name) if name else None
        if place is not None:
            chosen[name] = load_engine(place.state.content)
        elif name:
            rule = f'no rule engine has the id "{name[:64]}"; rules.list lists them'
            faults.add(("rule_engine_ids", at), "unknown_engine", rule)
    return list(chosen.values())
