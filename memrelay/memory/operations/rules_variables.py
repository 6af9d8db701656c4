"""rules.variables: lists the fields that conditions of rules can read."""

from dataclasses import dataclass
from typing import Literal

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.definitions import active_briefs
from memrelay.memory.recipes.assembly.engines import load_engine
from memrelay.memory.recipes.assembly.inputs import TEXT_FIELD
from memrelay.memory.recipes.assembly.stored_engines import list_engines
from memrelay.memory.recipes.scopes import SCOPES
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListVariables:
    """Lists all fields."""


@dataclass(frozen=True, slots=True)
class RuleVariable:
    """A field that a condition can read."""

    name: str
    """The name of the field."""
    source: Literal["scope", "input", "recipe", "rule"]
    """Its source: a scope, the input, an active recipe, or another rule."""


@dataclass(frozen=True, slots=True)
class RuleVariables:
    """The fields of conditions."""

    items: tuple[RuleVariable, ...]


@operation("rules.variables", access="read", mutates=False, home="recipes")
def list_variables(tx: Transaction, wanted: ListVariables, context: Context) -> RuleVariables:
    """List the fields that conditions can read: of scopes, the input, recipes and other rules."""
    found: dict[str, Literal["scope", "input", "recipe", "rule"]] = {
        f"scope.{scope}.{name}": "scope" for scope, names in SCOPES.items() for name in names
    }
    found[TEXT_FIELD] = "input"
    for brief in active_briefs(tx):
        for name in brief.variables:
            found.setdefault(f"addVar.{name}", "recipe")
    for state in list_engines(tx):
        for rule in load_engine(state.content).rules:
            for one in rule.when:
                found.setdefault(one.field, "rule")
    return RuleVariables(tuple(RuleVariable(name, source) for name, source in found.items()))
