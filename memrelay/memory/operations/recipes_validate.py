"""recipes.validate: checks a definition without storing it."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.errors import Fault
from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.check.definition import check_definition
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ValidateRecipe:
    """A definition to check."""

    definition: Any
    """The definition."""


@dataclass(frozen=True, slots=True)
class DefinitionFault:
    """An error or a warning."""

    path: str
    """The JSON pointer into the definition."""
    code: str
    """The kind, as docs/recipes.md lists it."""
    message: str
    """The problem and the fix."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of a check."""

    valid: bool
    """Whether there are no errors."""
    errors: tuple[DefinitionFault, ...]
    """All errors."""
    warnings: tuple[DefinitionFault, ...]
    """All warnings. They do not keep a recipe from being stored."""


@operation("recipes.validate", access="read", mutates=False, home="recipes")
def validate(tx: Transaction, given: ValidateRecipe, context: Context) -> Validation:
    """Check a definition without storing it, and return all errors and warnings."""
    checked = check_definition(given.definition)
    return Validation(not checked.errors, _shown(checked.errors), _shown(checked.warnings))


def _shown(faults: tuple[Fault, ...]) -> tuple[DefinitionFault, ...]:
    return tuple(DefinitionFault(*fault) for fault in faults)
