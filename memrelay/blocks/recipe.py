"""recipe: run a retrieval recipe on a message (docs/recipes.md)."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import orjson
from pydantic import Field, field_validator, model_validator

from memrelay.blocks.async_call import OperationFailed
from memrelay.blocks.contract import Call, DeferredCall, RunningCall, Transient
from memrelay.blocks.memory_args import MemoryId, StoreArgs, parse_object, within_message
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import InvalidInput
from memrelay.memory.models.recipes.definition.recipe import (
    SCOPE_OF,
    Recipe,
    belongs_to_scope,
    scope_fault,
)
from memrelay.memory.models.recipes.faults import suggest
from memrelay.memory.models.recipes.recipes import compile_recipe

EXECUTE = "recipes.execute"
# Keys of a message that give values to variables, and do not belong to the intent.
GIVEN = ("variables", "scope_variables")
# The code of a failed call that may succeed later.
UNAVAILABLE = "unavailable"


class RecipeArgs(StoreArgs):
    """A plain text is the query of the recipe. A JSON object is its intent, with `query`,
    `keywords`, `action` and `context`. It may also have `variables` and `scope_variables`; the
    values of the arguments take precedence over them."""

    memory_id: MemoryId = ""
    """The store of the pipeline's recipes: `instances/${pipeline_uid}/recipes`."""
    recipe: str = Field(default="", max_length=64)
    """Id of a stored recipe."""
    definition: dict[str, Any] | None = None
    """A definition in place of a stored recipe. It is checked at deploy."""
    variables: dict[str, Any] = Field(default_factory=dict)
    """Values of the recipe's additional variables, by name. With a `definition`, deploy refuses
    names that it does not declare."""
    scope_variables: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Values by scope, then by name: `{"user": {"user_id": "ada"}}`. With a `definition`, deploy
    refuses scopes that it does not read."""
    output: Literal["formatted", "items", "result"] = "formatted"
    """The answer: the formatted text, the final output as JSON, or the whole result as JSON. An
    empty text or list is replaced by `{"warnings": [...]}` if the run has warnings."""

    @field_validator("definition", "variables", "scope_variables", mode="before")
    @classmethod
    def _is_an_object(cls, value: Any) -> Any:
        return orjson.loads(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_one_valid_recipe(self) -> Self:
        if bool(self.recipe) == (self.definition is not None):
            raise ValueError("give either `recipe`, the id of a stored recipe, or a `definition`")
        rules = [
            scope_fault(scope, name)
            for scope, values in self.scope_variables.items()
            for name in (values or (None,))
        ]
        if self.definition is not None:
            rules += _undeclared(_compile(self.definition), self.variables, self.scope_variables)
        if any(rules):
            raise ValueError("; ".join(filter(None, rules)))
        return self

    @property
    def only_store(self) -> str:
        """Return the name of the built-in store of recipes, the block's only store."""
        return "recipes"


def _compile(definition: dict[str, Any]) -> Recipe:
    try:
        return compile_recipe(definition)
    except InvalidInput as error:
        faults = "; ".join(f"{one.path}: {one.message}" for one in error.faults)
        raise ValueError(f"{error}: {faults}") from error


def _undeclared(
    recipe: Recipe, variables: Mapping[str, Any], scopes: Mapping[str, Any]
) -> list[str]:
    """Return a rule for each variable and scope that a recipe does not declare."""
    declared = [variable.name for variable in recipe.variables]
    rules = []
    for name in variables:
        if name in SCOPE_OF:
            rules.append(belongs_to_scope(name))
        elif name not in declared:
            rules.append(f'the definition declares no variable "{name}"{suggest(name, declared)}')
    for scope in scopes:
        if scope not in recipe.inputs_scope:
            rules.append(
                f'the definition does not read the scope "{scope}": add it to inputs_scope'
            )
    return rules


async def execute(request: Mapping[str, Any], deferred_call: RunningCall) -> dict[str, Any]:
    """Return {"result"} of a recipe, or {"error"}."""
    try:
        return {"result": await deferred_call.operate(EXECUTE, request)}
    except OperationFailed as error:
        if error.code == UNAVAILABLE:
            raise Transient(str(error)) from error
        return {"error": str(error)}


@block("recipe", RecipeArgs, deferred_call=execute)
def recipe(call: Call, args: RecipeArgs) -> Message | DeferredCall:
    """Return what the recipe finds, or `{"error": ...}`."""
    if call.got is None:
        return DeferredCall(_request(call.text, args))
    outcome: dict[str, Any] = {"error": call.got.error} if call.got.error else call.got.value
    if "error" in outcome:
        return call.error(outcome["error"])
    result = outcome["result"]
    if not result["success"]:
        return call.error(result["error"]["message"])
    return within_message(call, _answer(call, args, result))


def _request(text: str, args: RecipeArgs) -> dict[str, Any]:
    named = {"id": args.recipe} if args.recipe else {"definition": args.definition}
    intent, options = parse_object(text), dict[str, Any]()
    if intent is not None:
        options = {name: intent.pop(name) for name in GIVEN if isinstance(intent.get(name), dict)}
    variables, scopes = options.get("variables", {}), options.get("scope_variables", {})
    merged = {**scopes}
    for scope, values in args.scope_variables.items():
        others = scopes.get(scope)
        merged[scope] = {**(others if isinstance(others, dict) else {}), **values}
    return named | {
        "intent": text if intent is None else intent,
        "variables": {**variables, **args.variables},
        "scope_variables": merged,
    }


def _answer(call: Call, args: RecipeArgs, result: Mapping[str, Any]) -> Message:
    if args.output == "result":
        return call.reply_json(dict(result))
    found = result["formattedOutput" if args.output == "formatted" else "finalOutput"]
    if not found and result["warnings"]:
        return call.reply_json({"warnings": result["warnings"]})
    return call.reply(found) if args.output == "formatted" else call.reply_json(found)
