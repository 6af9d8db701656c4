"""assembly.assemble: runs recipes and combines their items into a context."""

from dataclasses import dataclass

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.models.recipes.assembly.assemble import Assembly
from memrelay.memory.models.recipes.assembly.assemble import assemble as start_assembly
from memrelay.memory.models.recipes.assembly.definitions import Brief, find_brief
from memrelay.memory.models.recipes.assembly.faults import InputFaults
from memrelay.memory.models.recipes.assembly.inputs import TextList
from memrelay.memory.models.recipes.assembly.request import (
    MAX_EXPLICIT,
    MAX_ID,
    AssemblyRequest,
    Request,
    read_request,
)
from memrelay.memory.models.recipes.assembly.selection import select_recipes
from memrelay.memory.models.recipes.scopes import SCOPES
from memrelay.memory.operations import Context, operation


@operation("assembly.assemble", access="search", mutates=False, home="recipes", stepwise=True)
def assemble(tx: Transaction, wanted: AssemblyRequest, context: Context) -> Assembly:
    """Run the given recipes and those that rules add, and combine their items into a context.

    Raises InvalidInput: with every fault of the request.
    Raises ResultTooLarge: when the context does not fit into an answer.
    """
    return start_assembly(tx, read_request(tx, wanted), context)


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


@dataclass(frozen=True, slots=True)
class InputFault:
    """An error or a warning about the input."""

    path: str
    """JSON pointer into the input."""
    code: str
    """The kind of fault."""
    message: str
    """The problem and the fix."""


@dataclass(frozen=True, slots=True)
class InputChecked:
    """The result of a check."""

    valid: bool
    """Whether assembly.assemble accepts the input."""
    errors: tuple[InputFault, ...]
    """Every fault for which assembly.assemble refuses the input."""
    warnings: tuple[InputFault, ...]
    """Unknown and deprecated recipes, and variables that recipes need."""


@operation("assembly.validate", access="read", mutates=False, home="recipes")
def validate(tx: Transaction, wanted: AssemblyRequest, context: Context) -> InputChecked:
    """Check a request for a context and its recipes. It runs no recipe."""
    try:
        request = read_request(tx, wanted)
    except InvalidInput as error:
        return InputChecked(False, tuple(InputFault(*fault) for fault in error.faults), ())
    return InputChecked(True, (), tuple(InputFault(*one) for one in _warnings(tx, request)))


def _warnings(tx: Transaction, request: Request) -> list[Fault]:
    """Return what would make recipes fail, or run with a warning."""
    selection = select_recipes(tx, request)
    warnings = [
        Fault(
            _path_of(ident, request),
            "unknown_recipe",
            f'no recipe has the id "{ident}" ({selection.reasons[ident]}); its call will fail',
        )
        for ident in selection.unknown
    ]
    for brief in selection.briefs:
        if not brief.is_active:
            rule = f'recipe "{brief.id}" is deprecated'
            warnings.append(Fault(_path_of(brief.id, request), "deprecated", rule))
        warnings += [
            Fault(
                f"/additional_variables/{name}",
                "missing_variable",
                f'recipe "{brief.id}" needs the variable {name}; its call will fail',
            )
            for name in brief.missing(request.inputs)
        ]
    return warnings


def _path_of(ident: str, request: Request) -> str:
    """Return the place of an explicit recipe, or of the engines for one that a rule adds."""
    if ident in request.explicit:
        return f"/explicit_memory/{request.explicit.index(ident)}"
    return "/rule_engine_ids"
