"""assembly.validate: checks a request for a context without running recipes."""

from dataclasses import dataclass

from memrelay.memory.errors import Fault, InvalidInput
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.request import AssemblyRequest, Request, read_request
from memrelay.memory.recipes.assembly.selection import select_recipes
from memrelay.memory.sqlite.store import Transaction


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
