"""The input of an assembly: variables, the text, recipes, engines and constraints."""

from dataclasses import dataclass
from typing import Any

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.recipes.assembly.engines import Engine
from memrelay.memory.models.recipes.assembly.faults import InputFaults
from memrelay.memory.models.recipes.assembly.inputs import (
    AnyObject,
    Inputs,
    ObjectOrNull,
    ObjectTextOrNull,
    TextListOrNull,
    TextOrNull,
    read_inputs,
)
from memrelay.memory.models.recipes.assembly.stored_engines import choose_engines

MAX_EXPLICIT = 100
DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS = 5000, 60_000
MAX_TOKENS = 1_000_000
MAX_ID = 64
MAX_THREAD = 256
LIMITS = {"max_tokens": MAX_TOKENS, "max_sources": MAX_EXPLICIT, "timeout_ms": MAX_TIMEOUT_MS}


@dataclass(frozen=True, slots=True)
class AssemblyRequest:
    """The context to assemble."""

    scope_variables: AnyObject
    """Variables by scope: `{"task": {"task_id": "T1"}}`."""
    additional_variables: ObjectOrNull = None
    """Further variables of the recipes by name; rules read them as `addVar.NAME`."""
    input: ObjectTextOrNull = None
    """The question, a text or `{"text": "..."}`; it is the query of the recipes."""
    explicit_memory: TextListOrNull = None
    """The ids of recipes to run in any case, at most 100."""
    rule_engine_ids: TextListOrNull = None
    """The rule engines that add recipes, even disabled ones. By default all enabled engines."""
    constraints: ObjectOrNull = None
    """`max_tokens` of all items, `max_sources` (recipes, at most 100), and `timeout_ms` (5,000 by
    default, at most 60,000)."""
    thread_id: TextOrNull = None
    """The conversation, which is the variable `thread_id` of the scope thread."""


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request. None means no limit."""

    inputs: Inputs
    explicit: tuple[str, ...]
    engines: tuple[Engine, ...]
    max_tokens: int | None
    max_sources: int | None
    timeout_ms: int
    thread_id: str


def read_request(tx: Transaction, given: AssemblyRequest) -> Request:
    """Check a request. Raises InvalidInput with every fault."""
    faults = InputFaults()
    inputs = read_inputs(given, faults)
    explicit = _read_explicit(given.explicit_memory, faults)
    engines = choose_engines(tx, given.rule_engine_ids, faults)
    limits = _read_constraints(given.constraints, faults)
    thread = given.thread_id
    if thread is not None:
        thread = faults.take_text(thread, ("thread_id",), MAX_THREAD)
    faults.raise_any("the input")
    if thread:
        inputs.scopes.setdefault("thread", {})["thread_id"] = thread
    return Request(
        inputs,
        explicit,
        tuple(engines),
        limits.get("max_tokens"),
        limits.get("max_sources"),
        limits.get("timeout_ms", DEFAULT_TIMEOUT_MS),
        thread or "",
    )


def _read_explicit(given: Any, faults: InputFaults) -> tuple[str, ...]:
    """Return the ids of explicit recipes. Unknown ids are valid: their calls fail."""
    if given is None:
        return ()
    place = "explicit_memory"
    listed = faults.take_list(given, (place,), MAX_EXPLICIT)
    named = [
        faults.take_text(one, (place, at), MAX_ID, needed=True) for at, one in enumerate(listed)
    ]
    return tuple(dict.fromkeys(named))


def _read_constraints(given: Any, faults: InputFaults) -> dict[str, int]:
    if given is None:
        return {}
    return {
        name: faults.take_integer(value, ("constraints", name), 1, LIMITS[name])
        for name, value in faults.take_object(given, ("constraints",), LIMITS).items()
        if name in LIMITS and value is not None
    }
