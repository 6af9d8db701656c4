"""The instance that a step reads."""

from memrelay.memory.models.recipes.instances import NOUNS, find_or_none, id_of
from memrelay.memory.models.recipes.step import StepCall, StepFailed


def require_instance(call: StepCall, sort: str, name: str) -> str:
    """Return the id of an instance. Raises StepFailed."""
    found = find_or_none(call.tx, sort, name)
    if found is None:
        raise StepFailed("unknown_instance", f'there is no {NOUNS[sort]} "{name}"')
    return id_of(found)
