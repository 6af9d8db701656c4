"""assembly.required_variables: lists the variables that recipes read."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.definitions import Brief, find_brief
from memrelay.memory.recipes.assembly.faults import InputFaults
from memrelay.memory.recipes.assembly.inputs import TextList
from memrelay.memory.recipes.assembly.request import MAX_EXPLICIT, MAX_ID
from memrelay.memory.recipes.scopes import SCOPES
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class RequiredVariablesOf:
    """The recipes to look at."""

    memory_ids: TextList
    """The ids of recipes, at most 100."""


@dataclass(frozen=True, slots=True)
class AdditionalVariable:
    """An additional variable."""

    name: str
    """The name."""
    required: bool
    """Whether a recipe needs a value, because it has no default."""


@dataclass(frozen=True, slots=True)
class RequiredVariables:
    """The variables of recipes."""

    scope_variables: dict[str, tuple[str, ...]]
    """The variables of the scopes that the recipes declare, by scope."""
    additional_variables: tuple[AdditionalVariable, ...]
    """The additional variables, each once."""


@operation("assembly.required_variables", access="read", mutates=False, home="recipes")
def required_variables(
    tx: Transaction, wanted: RequiredVariablesOf, context: Context
) -> RequiredVariables:
    """Return the variables that recipes read.

    Raises InvalidInput: with every fault, such as an unknown recipe.
    """
    briefs = _find_all(tx, wanted)
    declared = {scope for brief in briefs for scope in brief.scopes}
    required = {name for brief in briefs for name in brief.required}
    names = dict.fromkeys(name for brief in briefs for name in brief.variables)
    return RequiredVariables(
        {scope: names for scope, names in SCOPES.items() if scope in declared},
        tuple(AdditionalVariable(name, name in required) for name in names),
    )


def _find_all(tx: Transaction, wanted: RequiredVariablesOf) -> list[Brief]:
    """Return the recipes. Raises InvalidInput."""
    faults, found = InputFaults(), list[Brief]()
    for at, given in enumerate(faults.take_list(wanted.memory_ids, ("memory_ids",), MAX_EXPLICIT)):
        place = ("memory_ids", at)
        ident = faults.take_text(given, place, MAX_ID, needed=True)
        brief = find_brief(tx, ident) if ident else None
        if brief is not None:
            found.append(brief)
        elif ident:
            rule = f'no recipe has the id "{ident[:64]}"; recipes.list lists them'
            faults.add(place, "unknown_recipe", rule)
    faults.raise_any("the input")
    return found
