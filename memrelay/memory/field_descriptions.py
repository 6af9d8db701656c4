"""The docstring below a field of an input or a model, as the description of that field in JSON
schemas.

pydantic's own way, `use_attribute_docstrings`, parses the complete module again for each of its
classes before Python 3.13: 1.4 s at the start of a web server. This parses only the class, and a
model only when its schema is made.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
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
        by_key = {
            cls.model_fields[name].alias or name: text
            for name, text in describe_fields(cls).items()
        }
        return _add_descriptions(by_key, core_schema, handler)


def describe_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions of the fields of a model, by name: declared ones and docstrings."""
    docstrings = read_descriptions(model)
    declared = {name: field.description for name, field in model.model_fields.items()}
    return {name: text for name in declared if (text := declared[name] or docstrings.get(name, ""))}


def nested_input(cls: type[Input]) -> type[Input]:
    """Declare a dataclass that the inputs of operations contain: unknown fields are refused."""
    return declare_input(cls, ConfigDict(extra="forbid"))


def declare_input(cls: type[Input], config: ConfigDict) -> type[Input]:
    """Give a dataclass its configuration for pydantic, and the schema its descriptions."""

    def describe(
        cls: type[Input], core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        make_key = config.get("alias_generator")
        by_key = {
            make_key(name) if callable(make_key) else name: text
            for name, text in read_descriptions(cls).items()
        }
        return _add_descriptions(by_key, core_schema, handler)

    # mypy knows none of these attributes.
    setattr(cls, "__pydantic_config__", config)  # noqa: B010
    setattr(cls, "__get_pydantic_json_schema__", classmethod(describe))  # noqa: B010
    return cls


def _add_descriptions(
    by_key: Mapping[str, str], core_schema: CoreSchema, handler: GetJsonSchemaHandler
) -> JsonSchemaValue:
    """Return the JSON schema with the descriptions of these properties that have none."""
    schema = handler(core_schema)
    properties = handler.resolve_ref_schema(schema).get("properties", {})
    for key in by_key.keys() & properties.keys():
        properties[key].setdefault("description", by_key[key])
    return schema


def read_descriptions(cls: type[Any]) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its bases, by name."""
    docstrings: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        docstrings |= _read_docstrings(each)
    return docstrings


def _read_docstrings(cls: type[Any]) -> Iterator[tuple[str, str]]:
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
