"""recipes.specs: describes the step types."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.specs import StepSpec, step_specs
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListSpecs:
    """The step types to describe."""

    user_configurable: bool = False
    """Leave out `custom`, whose handlers the operator provides."""


@dataclass(frozen=True, slots=True)
class SpecList:
    """The step types by name."""

    items: tuple[StepSpec, ...]


@operation("recipes.specs", access="read", mutates=False, home="recipes")
def specs(tx: Transaction, wanted: ListSpecs, context: Context) -> SpecList:
    """Describe the step types and their parameters."""
    found = step_specs()
    if wanted.user_configurable:
        found = tuple(spec for spec in found if spec.category != "custom")
    return SpecList(found)
