"""Assemble a context: run recipes one after the other, and combine their items into sections
within a token budget.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Fault, InvalidInput, RecordNotFound, ResultTooLarge
from memrelay.memory.models.named_memories.knowledge import BEGIN, END, one_line_name
from memrelay.memory.models.named_memories.recall_text import escape_fence
from memrelay.memory.models.recipes.definition.recipe import SCOPES
from memrelay.memory.models.recipes.execution.items import flatten, item_text
from memrelay.memory.models.recipes.execution.run import RunInput, run_recipe
from memrelay.memory.models.recipes.faults import FaultList
from memrelay.memory.models.recipes.recipes import Brief, find_brief, load_recipe
from memrelay.memory.models.recipes.rules import (
    AnyObject,
    Engine,
    Evaluation,
    Inputs,
    MatchedRule,
    ObjectOrNull,
    ObjectTextOrNull,
    TextList,
    TextListOrNull,
    TextOrNull,
    choose_engines,
    evaluate_rules,
    read_inputs,
)
from memrelay.memory.operations import Context, operation

# The order of sections in a context.
SECTIONS = (
    "state",
    "warnings",
    "constraints",
    "knowledge",
    "history",
    "suggestions",
    "working_memory",
)
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ContextItem:
    """An item of a context."""

    id: str
    """The id of the item in its recipe."""
    text: str
    """The text."""
    memory_id: str
    """The recipe that delivered it."""
    memory_label: str
    """The label of the recipe."""
    priority: str
    """The priority of the recipe: low, medium, high or critical."""
    weight: int
    """The priority as a number, 1 to 4."""
    tokens: int
    """The estimated length: one token for four characters."""


@dataclass(frozen=True, slots=True)
class RecipeItems:
    """The items of a recipe, the best first, before the cut to `max_items`."""

    section: str
    max_items: int
    items: tuple[ContextItem, ...]


@dataclass(frozen=True, slots=True)
class Combined:
    """The items by section, in the order of sections, and whether the budget dropped items."""

    sections: dict[str, tuple[ContextItem, ...]]
    truncated: bool


def combine(contributions: Sequence[RecipeItems], max_tokens: int | None) -> Combined:
    """Return the items of all recipes by section, the highest weight first.

    Equal texts occur once, with the highest weight. Each recipe has at most its `max_items`. Over
    the budget, items are dropped: the lowest weight first, in it the last section, in it the last
    item.
    """
    # For each text the first item with the highest weight.
    best = dict[str, ContextItem]()
    for contribution in contributions:
        for item in contribution.items:
            held = best.get(item.text)
            if held is None or item.weight > held.weight:
                best[item.text] = item
    # (position of the section, item)
    placed = list[tuple[int, ContextItem]]()
    for contribution in contributions:
        items = [item for item in contribution.items if best[item.text] is item]
        section = SECTIONS.index(contribution.section)
        placed += [(section, item) for item in items[: contribution.max_items]]
    # Stable: equal weights keep the order of recipes.
    placed.sort(key=lambda one: (one[0], -one[1].weight))
    fitting = _fit(placed, max_tokens)
    sections = dict[str, list[ContextItem]]()
    for section, item in fitting:
        sections.setdefault(SECTIONS[section], []).append(item)
    filled = {name: tuple(items) for name, items in sections.items()}
    return Combined(filled, len(fitting) < len(placed))


def _fit(
    placed: list[tuple[int, ContextItem]], max_tokens: int | None
) -> list[tuple[int, ContextItem]]:
    """Return the items that fit into the budget, in their order."""
    if max_tokens is None:
        return placed
    surplus = sum(item.tokens for _, item in placed) - max_tokens
    order = sorted(range(len(placed)), key=lambda at: (placed[at][1].weight, -at))
    dropped = set[int]()
    for at in order:
        if surplus <= 0:
            break
        surplus -= placed[at][1].tokens
        dropped.add(at)
    return [one for at, one in enumerate(placed) if at not in dropped]


def count_tokens(text: str) -> int:
    return -(-len(text) // CHARACTERS_A_TOKEN)


def render(sections: dict[str, tuple[ContextItem, ...]]) -> str:
    """Return the items as one fenced text for a prompt, "" without items.

    A text can neither end the fence nor imitate a line of another recipe.
    """
    lines = [
        f"[{section}: {one_line_name(item.memory_label)}] {escape_fence(item.text)}\n"
        for section, items in sections.items()
        for item in items
    ]
    return BEGIN + "".join(lines) + END if lines else ""


MAX_EXPLICIT = 100
MAX_TOKENS = 1_000_000
MAX_ID = 64
MAX_THREAD = 256
# Returns seconds.
Clock = Callable[[], float]
EXPLICIT = "explicit"
DEFAULT_TIMEOUT_MS, MAX_TIMEOUT_MS = 5000, 60_000
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
class CallError:
    """Why a recipe delivered nothing."""

    code: str
    """The kind of error."""
    message: str
    """The problem."""


@dataclass(frozen=True, slots=True)
class MemoryCall:
    """The run of a recipe."""

    memory_id: str
    """The recipe."""
    reason: str
    """`explicit`, or `rule ENGINE/RULE`."""
    success: bool
    """Whether the recipe ran to its end."""
    items: int
    """The number of items that it delivered."""
    duration_ms: float
    """The time from its start to its end, milliseconds."""
    error: CallError | None
    """Why it failed; null on success."""


@dataclass(frozen=True, slots=True)
class Trace:
    """How a context was assembled."""

    memory_calls: tuple[MemoryCall, ...]
    """The recipes: explicit ones, then those of rules. Failed and late ones included."""
    rules_applied: tuple[MatchedRule, ...]
    """The rules whose conditions hold."""
    variables_used: tuple[str, ...]
    """The variables that rules and recipes read."""
    missing_variables: tuple[str, ...]
    """The variables that recipes read and that have no value."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Figures of a context."""

    token_estimate: int
    """The tokens of all items."""
    total_items: int
    """The number of items."""
    truncated: bool
    """Whether `max_tokens` or `max_sources` left something out."""
    duration_ms: float
    """The time of the assembly, milliseconds."""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """A context for a prompt."""

    context: dict[str, tuple[ContextItem, ...]]
    """The items by section; empty sections are left out."""
    text: str
    """The items as one fenced text; "" without items."""
    trace: Trace
    """How the context was assembled."""
    meta: Meta
    """Figures."""


# Between two steps, an assembly receives the transaction to continue with.
Assembly = Generator[None, Transaction, AssembledContext]


@operation("assembly.assemble", access="search", mutates=False, store="recipes", stepwise=True)
def assemble(tx: Transaction, query: AssemblyRequest, context: Context) -> Assembly:
    """Run the given recipes and those that rules add, and combine their items into a context.

    Raises InvalidInput: with every fault of the request.
    Raises ResultTooLarge: when the context does not fit into an answer.
    """
    return start_assembly(tx, read_request(tx, query), context)


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


@operation("assembly.validate", access="read", mutates=False, store="recipes")
def validate(tx: Transaction, query: AssemblyRequest, context: Context) -> InputChecked:
    """Check a request for a context and its recipes. It runs no recipe."""
    try:
        request = read_request(tx, query)
    except InvalidInput as error:
        return InputChecked(False, tuple(InputFault(*fault) for fault in error.faults), ())
    return InputChecked(True, (), tuple(InputFault(*one) for one in _warnings(tx, request)))


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


def _warnings(tx: Transaction, request: Request) -> list[Fault]:
    """Return what would make recipes fail, or run with a warning."""
    selection = select_recipes(tx, request)
    warnings = [
        Fault(
            _locate_recipe(ident, request),
            "unknown_recipe",
            f'no recipe has the id "{ident}" ({selection.reasons[ident]}); its call will fail',
        )
        for ident in selection.unknown
    ]
    for brief in selection.briefs:
        if not brief.is_active:
            rule = f'recipe "{brief.id}" is deprecated'
            warnings.append(Fault(_locate_recipe(brief.id, request), "deprecated", rule))
        warnings += [
            Fault(
                f"/additional_variables/{name}",
                "missing_variable",
                f'recipe "{brief.id}" needs the variable {name}; its call will fail',
            )
            for name in brief.missing(request.inputs.additional)
        ]
    return warnings


def _locate_recipe(ident: str, request: Request) -> str:
    """Return the place of an explicit recipe, or of the engines for one that a rule adds."""
    if ident in request.explicit:
        return f"/explicit_memory/{request.explicit.index(ident)}"
    return "/rule_engine_ids"


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


@operation("assembly.required_variables", access="read", mutates=False, store="recipes")
def required_variables(
    tx: Transaction, query: RequiredVariablesOf, context: Context
) -> RequiredVariables:
    """Return the variables that recipes read.

    Raises InvalidInput: with every fault, such as an unknown recipe.
    """
    faults, briefs = FaultList(), list[Brief]()
    for at, id_ in enumerate(faults.take_list(query.memory_ids, ("memory_ids",), MAX_EXPLICIT)):
        path = ("memory_ids", at)
        ident = faults.take_text(id_, path, MAX_ID, needed=True)
        brief = find_brief(tx, ident) if ident else None
        if brief is not None:
            briefs.append(brief)
        elif ident:
            rule = f'no recipe has the id "{ident[:64]}"; recipes.list lists them'
            faults.add(path, "unknown_recipe", rule)
    faults.raise_any("the input")
    declared = {scope for brief in briefs for scope in brief.scopes}
    required = {name for brief in briefs for name in brief.required}
    names = dict.fromkeys(name for brief in briefs for name in brief.variables)
    return RequiredVariables(
        {scope: names for scope, names in SCOPES.items() if scope in declared},
        tuple(AdditionalVariable(name, name in required) for name in names),
    )


def read_request(tx: Transaction, submitted: AssemblyRequest) -> Request:
    """Check a request. Raises InvalidInput with every fault."""
    faults = FaultList()
    inputs = read_inputs(submitted, faults)
    explicit = _read_explicit(submitted.explicit_memory, faults)
    engines = choose_engines(tx, submitted.rule_engine_ids, faults)
    limits = _read_constraints(submitted.constraints, faults)
    thread = submitted.thread_id
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


def _read_explicit(submitted: Any, faults: FaultList) -> tuple[str, ...]:
    """Return the ids of explicit recipes. Unknown ids are valid: their calls fail."""
    if submitted is None:
        return ()
    field = "explicit_memory"
    values = faults.take_list(submitted, (field,), MAX_EXPLICIT)
    ids = [faults.take_text(one, (field, at), MAX_ID, needed=True) for at, one in enumerate(values)]
    return tuple(dict.fromkeys(ids))


def _read_constraints(submitted: Any, faults: FaultList) -> dict[str, int]:
    if submitted is None:
        return {}
    return {
        name: faults.take_integer(value, ("constraints", name), 1, LIMITS[name])
        for name, value in faults.take_object(submitted, ("constraints",), LIMITS).items()
        if name in LIMITS and value is not None
    }


def start_assembly(
    tx: Transaction, request: Request, context: Context, clock: Clock = time.monotonic
) -> Assembly:
    """Run the recipes of a request, the highest weight first, and combine their items.

    Raises ResultTooLarge: when the context does not fit into an answer.
    """
    run = _Run(tx, request, context, clock, clock())
    selection = select_recipes(tx, request)
    run.used |= dict.fromkeys(selection.evaluation.used)
    for ident in selection.unknown:
        error = CallError("unknown_recipe", f'no recipe has the id "{ident}"')
        run.calls[ident] = MemoryCall(ident, selection.reasons[ident], False, 0, 0.0, error)
    for brief in selection.briefs:
        yield from _call(brief, selection.reasons[brief.id], run)
    assembled = _finish(selection, run)
    if len(orjson.dumps(assembled)) > context.result_bytes:
        raise ResultTooLarge(
            f"the context has more than {context.result_bytes} bytes; set constraints.max_tokens"
        )
    return assembled


@dataclass(slots=True)
class _Run:
    """An assembly while it runs. `tx` is the present transaction."""

    tx: Transaction
    request: Request
    context: Context
    clock: Clock
    began: float
    calls: dict[str, MemoryCall] = field(default_factory=dict)
    delivered: dict[str, RecipeItems] = field(default_factory=dict)
    used: dict[str, None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)

    def since_ms(self, began: float) -> float:
        """Return the time since a moment, milliseconds."""
        return round((self.clock() - began) * 1000, 3)

    def is_late(self) -> bool:
        """Return whether `timeout_ms` has passed."""
        return self.since_ms(self.began) > self.request.timeout_ms


def _call(brief: Brief, reason: str, run: _Run) -> Generator[None, Transaction, None]:
    """Run a recipe and note its items, or why it failed."""
    began, items, error = run.clock(), tuple[ContextItem, ...](), None
    try:
        result = yield from _drive(brief, run)
        items, error = _read_result(brief, result, run)
    except _Late:
        error = CallError("timeout", f"the assembly takes longer than {run.request.timeout_ms} ms")
    except InvalidInput as refused:
        rules = "; ".join(fault.message for fault in refused.faults)
        error = CallError(refused.faults[0].code, rules)
        run.missing |= dict.fromkeys(brief.missing(run.request.inputs.additional))
    except RecordNotFound as gone:
        # It was deleted since the assembly began.
        error = CallError("unknown_recipe", str(gone))
    if error is None:
        contribution = brief.contribution
        run.delivered[brief.id] = RecipeItems(contribution.section, contribution.max_items, items)
    run.calls[brief.id] = MemoryCall(
        brief.id, reason, error is None, len(items), run.since_ms(began), error
    )


def _drive(brief: Brief, run: _Run) -> Generator[None, Transaction, dict[str, Any]]:
    """Run a recipe step by step until the time is over.

    Raises _Late, RecordNotFound and InvalidInput.
    """
    if run.is_late():
        raise _Late
    inputs = run.request.inputs
    run_input = RunInput(inputs.text, inputs.additional, inputs.scopes, run.request.thread_id)
    steps = run_recipe(run.tx, load_recipe(run.tx, brief.id), run_input, run.context)
    try:
        next(steps)
        while True:
            run.tx = yield
            if run.is_late():
                raise _Late
            steps.send(run.tx)
    except StopIteration as end:
        if run.is_late():
            raise _Late from None
        result: dict[str, Any] = end.value
        return result
    finally:
        steps.close()


class _Late(Exception):
    """The time of the assembly is over."""


def _read_result(
    brief: Brief, result: dict[str, Any], run: _Run
) -> tuple[tuple[ContextItem, ...], CallError | None]:
    """Return the items of a result, or its error."""
    run.used |= dict.fromkeys(result["variables"]["used"])
    run.missing |= dict.fromkeys(result["variables"]["missing"])
    if not result["success"]:
        return (), CallError(result["error"]["code"], result["error"]["message"])
    output = result["finalOutput"]
    if isinstance(output, str):
        pairs = [(brief.id, output)] if output else []
    else:
        listed = enumerate(flatten(output or []))
        pairs = [(str(one.get("id", at)), item_text(one)) for at, one in listed]
    priority, weight = brief.contribution.priority, brief.contribution.weight
    return tuple(
        ContextItem(ident, text, brief.id, brief.label, priority, weight, count_tokens(text))
        for ident, text in pairs
    ), None


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


def _finish(selection: Selection, run: _Run) -> AssembledContext:
    """Combine the items of all recipes in the order of the request."""
    in_order = [ident for ident in selection.reasons if ident in run.delivered]
    combined = combine([run.delivered[ident] for ident in in_order], run.request.max_tokens)
    items = [item for one in combined.sections.values() for item in one]
    calls = [run.calls[ident] for ident in selection.reasons if ident in run.calls]
    return AssembledContext(
        combined.sections,
        render(combined.sections),
        Trace(tuple(calls), selection.evaluation.matched, tuple(run.used), tuple(run.missing)),
        Meta(
            sum(item.tokens for item in items),
            len(items),
            combined.truncated or selection.left_out > 0,
            run.since_ms(run.began),
        ),
    )


def select_recipes(tx: Transaction, request: Request) -> Selection:
    """Return the recipes of a request, each once. `max_sources` keeps the highest weights."""
    evaluation = evaluate_rules(request.engines, request.inputs.values())
    reasons = dict.fromkeys(request.explicit, EXPLICIT)
    for rule in evaluation.matched:
        for ident in rule.add_memories:
            reasons.setdefault(ident, f"rule {rule.engine_id}/{rule.rule_id}")
    briefs, unknown = list[Brief](), list[str]()
    for id_ in reasons:
        brief = find_brief(tx, id_)
        if brief is None:
            unknown.append(id_)
        else:
            briefs.append(brief)
    # Stable: equal weights keep their order.
    briefs.sort(key=lambda brief: -brief.contribution.weight)
    selected = briefs[: request.max_sources]
    return Selection(
        evaluation,
        reasons,
        tuple(selected),
        tuple(unknown),
        len(briefs) - len(selected),
    )
