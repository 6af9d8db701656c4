"""recipe: run a retrieval recipe on a message (docs/recipes.md)."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import orjson
from pydantic import Field, field_validator, model_validator

from memrelay.blocks.async_call import OperationFailed
from memrelay.blocks.contract import BlockArgs, Call, Errand, RunningErrand, Transient
from memrelay.blocks.memory_args import MemoryId, within_message
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import InvalidInput
from memrelay.memory.recipes.compile import compile_recipe

EXECUTE = "recipes.execute"
# The code of a failed call that may succeed later.
UNAVAILABLE = "unavailable"


class RecipeArgs(BlockArgs):
    """A plain text is the query of the recipe. A JSON object is its intent, with `query`,
    `keywords`, `action` and `context`."""

    memory_id: MemoryId = ""
    """The store of the pipeline's recipes: `instances/${pipeline_uid}/recipes`."""
    recipe: str = Field(default="", max_length=64)
    """Id of a stored recipe."""
    definition: dict[str, Any] | None = None
    """A definition in place of a stored recipe. It is checked at deploy."""
    variables: dict[str, Any] = Field(default_factory=dict)
    """Values of the recipe's variables."""
    output: Literal["formatted", "items", "result"] = "formatted"
    """The answer: the formatted text, the final output as JSON, or the whole result as JSON."""

    @field_validator("definition", "variables", mode="before")
    @classmethod
    def _is_an_object(cls, value: Any) -> Any:
        return orjson.loads(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_one_valid_recipe(self) -> Self:
        if bool(self.recipe) == (self.definition is not None):
            raise ValueError("give either `recipe`, the id of a stored recipe, or a `definition`")
        if self.definition is not None:
            try:
                compile_recipe(self.definition)
            except InvalidInput as error:
                faults = "; ".join(f"{one.path}: {one.message}" for one in error.faults)
                raise ValueError(f"{error}: {faults}") from error
        return self

    @property
    def store(self) -> str:
        """Return the memory_id."""
        return self.memory_id

    @property
    def home(self) -> str:
        """Return the home of the pipeline's recipes, the block's only store."""
        return "recipes"

    @property
    def default_home(self) -> str:
        """Return the same home."""
        return "recipes"


async def execute(request: Mapping[str, Any], errand: RunningErrand) -> dict[str, Any]:
    """Return {"result"} of a recipe, or {"error"}."""
    try:
        return {"result": await errand.operate(EXECUTE, request)}
    except OperationFailed as error:
        if error.code == UNAVAILABLE:
            raise Transient(str(error)) from error
        return {"error": str(error)}


@block("recipe", RecipeArgs, errand=execute)
def recipe(call: Call, args: RecipeArgs) -> Message | Errand:
    """Return what the recipe finds, or `{"error": ...}`."""
    if call.got is None:
        return Errand(_request(call.text, args))
    outcome: dict[str, Any] = {"error": call.got.error} if call.got.error else call.got.value
    if "error" in outcome:
        return call.error(outcome["error"])
    result = outcome["result"]
    if not result["success"]:
        return call.error(result["error"]["message"])
    return within_message(call, _answer(call, args, result))


def _request(text: str, args: RecipeArgs) -> dict[str, Any]:
    named = {"id": args.recipe} if args.recipe else {"definition": args.definition}
    return named | {"intent": _parse_intent(text), "variables": args.variables}


def _parse_intent(text: str) -> str | dict[str, Any]:
    """Return the JSON object in a text, else the text."""
    try:
        intent = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return intent if isinstance(intent, dict) else text


def _answer(call: Call, args: RecipeArgs, result: Mapping[str, Any]) -> Message:
    if args.output == "formatted":
        return call.reply(result["formattedOutput"])
    return call.reply_json(result["finalOutput"] if args.output == "items" else dict(result))
