"""Select the recipes of an assembly: explicit ones, and those that rules add."""

from collections.abc import Mapping
from dataclasses import dataclass

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes.assembly.definitions import Brief, find_brief
from memrelay.memory.models.recipes.assembly.request import Request
from memrelay.memory.models.recipes.assembly.rules import Evaluation, evaluate_rules

EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class Selection:
    """The recipes to run."""

    evaluation: Evaluation
    # Reason by id, explicit recipes first: `explicit`, or `rule ENGINE/RULE`.
    reasons: Mapping[str, str]
    # Recipes that exist and that `max_sources` keeps, the highest weight first.
    briefs: tuple[Brief, ...]
    unknown: tuple[str, ...]
    # Number of recipes that `max_sources` leaves out.
    left_out: int


def select_recipes(tx: Transaction, request: Request) -> Selection:
    """Return the recipes of a request, each once. `max_sources` keeps the highest weights."""
    evaluation = evaluate_rules(request.engines, request.inputs.values())
    reasons = dict.fromkeys(request.explicit, EXPLICIT)
    for rule in evaluation.matched:
        for ident in rule.add_memories:
            reasons.setdefault(ident, f"rule {rule.engine_id}/{rule.rule_id}")
    found = {ident: find_brief(tx, ident) for ident in reasons}
    briefs = [brief for brief in found.values() if brief is not None]
    # Stable: equal weights keep their order.
    briefs.sort(key=lambda one: -one.weight)
    kept = briefs[: request.max_sources]
    return Selection(
        evaluation,
        reasons,
        tuple(kept),
        tuple(ident for ident, brief in found.items() if brief is None),
        len(briefs) - len(kept),
    )
