"""The docstring below a field of an input or a model, as the description of that field in JSON
schemas.

pydantic's own way, `use_attribute_docstrings`, parses the complete module again for each of its
classes before Python 3.13: 1.4 s at the start of a web server. This parses only the class, and a
model only when its schema is made.
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

Input = TypeVar("Input")


class DescribedModel(BaseModel):
    """A model whose JSON schema describes the fields by the docstrings below them."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, description in describe_fields(cls).items():
            properties[cls.model_fields[name].alias or name].setdefault("description", description)
        return schema


def describe_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions of the fields of a model, by name: declared ones and docstrings."""
    docstrings: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        docstrings |= _read_descriptions(cls)
    declared = {name: field.description for name, field in model.model_fields.items()}
    return {name: text for name in declared if (text := declared[name] or docstrings.get(name, ""))}


def nested_input(cls: type[Input]) -> type[Input]:
    """Declare a dataclass that the inputs of operations contain: unknown fields are refused."""
    return declare_input(cls, ConfigDict(extra="forbid"))


def declare_input(cls: type[Input], config: ConfigDict) -> type[Input]:
    """Give a dataclass its configuration for pydantic, and its fields their descriptions."""
    setattr(cls, "__pydantic_config__", config)  # noqa: B010, mypy knows no such attribute
    described = dict(_read_descriptions(cls))
    for field in fields(cls):  # type: ignore[arg-type]  # every caller has a dataclass
        if field.name in described:
            description = {"description": described[field.name]}
            field.metadata = MappingProxyType({**field.metadata, **description})
    return cls


def _read_descriptions(cls: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the names and docstrings of the fields of a class at the top level of its module.

    There are none without the source, as in pydantic.
    """
    lines = _read_lines(getattr(sys.modules.get(cls.__module__), "__file__", None) or "")
    header = f"class {cls.__name__}"
    starts = (n for n, line in enumerate(lines) if line.startswith((f"{header}:", f"{header}(")))
    start = next(starts, None)
    if start is None:
        return
    ends = (n for n in range(start + 1, len(lines)) if lines[n][:1] not in ("", " ", ")", "#"))
    (declared,) = ast.parse("\n".join(lines[start : next(ends, None)])).body
    assert isinstance(declared, ast.ClassDef)
    for before, statement in pairwise(declared.body):
        match before, statement:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)


@lru_cache(maxsize=1)  # the classes of a module follow each other
def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
