"""Variables and contribution of a recipe, which an assembly needs before it runs."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.models.recipes.assembly.inputs import Inputs
from memrelay.memory.models.recipes.definition.recipe import WEIGHTS, Contribution
from memrelay.memory.models.recipes.definition.scopes import SCOPES
from memrelay.memory.models.recipes.keyed_kind import SCOPE
from memrelay.memory.models.recipes.recipes import all_recipes
from memrelay.memory.models.recipes.table import RecipeTables


@dataclass(frozen=True, slots=True)
class Brief:
    """A summary of a recipe. `required` are the additional variables without default."""

    id: str
    label: str
    is_active: bool
    scopes: tuple[str, ...]
    variables: tuple[str, ...]
    required: tuple[str, ...]
    section: str
    priority: str
    max_items: int

    @property
    def weight(self) -> int:
        """The priority as a number, 1 to 4."""
        return WEIGHTS[self.priority]

    def missing(self, inputs: Inputs) -> list[str]:
        """Return the required variables that have no value."""
        return [name for name in self.required if inputs.additional.get(name) is None]


def find_brief(tx: Transaction, ident: str) -> Brief | None:
    """Return the summary of a recipe, None if it does not exist."""
    stored = tx.table(RecipeTables).definitions.find(SCOPE, ident)
    return None if stored is None else _summarize(stored)


def active_briefs(tx: Transaction) -> Iterator[Brief]:
    """Yield the summaries of all active recipes in the order of their ids."""
    return (brief for brief in map(_summarize, all_recipes(tx)) if brief.is_active)


def _summarize(stored: StoredRecord) -> Brief:
    definition = orjson.loads(stored.content)
    variables = definition.get("additional_variables", [])
    contribution = asdict(Contribution()) | definition.get("contribution", {})
    return Brief(
        definition["id"],
        definition["label"],
        definition.get("status", "active") == "active",
        tuple(one for one in definition.get("inputs_scope", []) if one in SCOPES),
        tuple(one["name"] for one in variables),
        tuple(one["name"] for one in variables if _is_needed(one)),
        contribution["section"],
        contribution["priority"],
        contribution["max_items"],
    )


def _is_needed(variable: dict[str, Any]) -> bool:
    return variable.get("required") is True and variable.get("default") is None
