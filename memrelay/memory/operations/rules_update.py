"""rules.update: changes a rule engine."""

from dataclasses import asdict, dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.recipes.assembly.engines import (
    ENGINE_KEYS,
    EnabledOrNull,
    RuleListOrNull,
    check_engine,
    load_engine,
)
from memrelay.memory.recipes.assembly.inputs import TextOrNull
from memrelay.memory.recipes.assembly.stored_engines import EngineView, find_engine, view_engine
from memrelay.memory.records.view import Guid, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """The changes of a rule engine. Fields that are omitted or null keep their values."""

    id: Guid
    """The id of the engine."""
    name: TextOrNull = None
    """The new name."""
    description: TextOrNull = None
    """The new description."""
    enabled: EnabledOrNull = None
    """Whether assemblies evaluate it without naming it."""
    rules: RuleListOrNull = None
    """The new rules; they replace all present rules."""
    if_version: Versions = ()
    """Change only if the engine has one of these versions."""


@operation("rules.update", access="write", mutates=True, home="recipes")
def update_rules(tx: Transaction, change: UpdateRules, context: Context) -> EngineView:
    """Change the given fields of a rule engine.

    Raises InvalidInput: with every fault of the changes.
    Raises RecordNotFound: when the engine does not exist.
    Raises VersionConflict: when the engine has another version.
    """
    place = find_engine(tx, change.id)
    before = place.whole
    check_version(before.record, before.further, change.if_version)
    given = {name: getattr(change, name) for name in ENGINE_KEYS}
    changed = {name: value for name, value in given.items() if value is not None}
    engine = check_engine(asdict(load_engine(before.content)) | changed, change.id)
    content = engine.as_json()
    if content == before.content:
        return view_engine(before)
    return view_engine(tx.recipes.rule_engines.change(place, before._replace(content=content)))
