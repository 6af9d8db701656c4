"""A tool of an agent: its description for the model, and the function that runs it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from memrelay.blocks.async_call import OperationFailed

Json = dict[str, Any]
# operate(name, input, store="", key="") returns the output. It raises OperationFailed.
Operate = Callable[..., Awaitable[Any]]
MAX_RESULT = 60_000  # characters


class ToolFault(Exception):
    """A tool cannot do what the model asks for. The text is for the model."""


class Arguments(BaseModel):
    """The arguments of a tool."""

    model_config = ConfigDict(use_attribute_docstrings=True)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` takes the parsed arguments and an idempotency key, and returns text."""

    name: str
    description: str
    arguments: type[BaseModel]
    run: Callable[[Any, str], Awaitable[str]]

    @property
    def on_wire(self) -> Json:
        """Return the tool as `/chat/completions` takes it."""
        schema = self.arguments.model_json_schema()
        properties = {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in schema["properties"].items()
        }
        parameters = {
            "type": "object",
            "properties": properties,
            "required": schema.get("required", []),
        }
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
        }
        return {"type": "function", "function": function}

    async def call(self, given: Mapping[str, Any], key: str) -> str:
        """Return the result for the model. A fault is a JSON object with `error`."""
        try:
            result = await self.run(self.arguments.model_validate(given), key)
        except ValidationError as error:
            detail = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, detail["loc"]))
            return as_error(f"{place}: {detail['msg']}" if place else detail["msg"])
        except (ToolFault, OperationFailed) as error:
            return as_error(str(error))
        return result if len(result) <= MAX_RESULT else f"{result[:MAX_RESULT]} …"


def as_error(text: str) -> str:
    """Return the result of a call that failed."""
    return orjson.dumps({"error": text}).decode()
