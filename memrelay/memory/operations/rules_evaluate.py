"""rules.evaluate: evaluates rules without running recipes."""

from dataclasses import dataclass

from memrelay.memory.operation import Context, operation
from memrelay.memory.recipes.assembly.faults import InputFaults
from memrelay.memory.recipes.assembly.inputs import (
    AnyObject,
    ObjectOrNull,
    ObjectTextOrNull,
    TextListOrNull,
    read_inputs,
)
from memrelay.memory.recipes.assembly.rules import MatchedRule, evaluate_rules
from memrelay.memory.recipes.assembly.stored_engines import choose_engines
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class EvaluateRules:
    """The inputs of rules."""

    scope_variables: AnyObject
    """Variables by scope: `{"task": {"task_id": "T1"}}`."""
    additional_variables: ObjectOrNull = None
    """Further variables by name; rules read them as `addVar.NAME`."""
    input: ObjectTextOrNull = None
    """The question, a text or `{"text": "..."}`."""
    rule_engine_ids: TextListOrNull = None
    """The engines to evaluate, even disabled ones. By default all enabled engines."""


@dataclass(frozen=True, slots=True)
class EngineResult:
    """The result of one engine."""

    engine_id: str
    """The engine."""
    engine_name: str
    """The name of the engine."""
    matched_rules: tuple[MatchedRule, ...]
    """The rules whose conditions hold, the highest priority first."""


@dataclass(frozen=True, slots=True)
class RulesEvaluated:
    """The recipes that rules add."""

    matched_memories: tuple[str, ...]
    """The ids of the recipes, each once, those of the highest priority first."""
    engine_results: tuple[EngineResult, ...]
    """The results by engine."""
    variables_used: tuple[str, ...]
    """The fields of conditions that have a value."""


@operation("rules.evaluate", access="search", mutates=False, home="recipes")
def evaluate(tx: Transaction, wanted: EvaluateRules, context: Context) -> RulesEvaluated:
    """Return which recipes the rules add for some inputs. It runs no recipe.

    Raises InvalidInput: with every fault of the inputs.
    """
    faults = InputFaults()
    inputs = read_inputs(wanted, faults)
    engines = choose_engines(tx, wanted.rule_engine_ids, faults)
    faults.raise_any("the input")
    found = evaluate_rules(engines, inputs.values())
    added = dict.fromkeys(ident for rule in found.matched for ident in rule.add_memories)
    results = [
        EngineResult(
            one.id, one.name, tuple(rule for rule in found.matched if rule.engine_id == one.id)
        )
        for one in engines
    ]
    return RulesEvaluated(tuple(added), tuple(results), found.used)
