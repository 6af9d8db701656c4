"""Make the methods of the clients and of the embedded store from the operations.

A noun of the operations, such as `records`, becomes a class with a method per operation. The
modules of a noun load when the noun is first used, and a method is compiled when it is first used.
"""

import json
import keyword
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType, NoneType
from typing import Any, ClassVar, Literal, get_origin

from memrelay.memory.operations import (
    AS_OF,
    STORE,
    Operation,
    all_operations,
    holds_objects,
    input_schema,
    operations_on,
    positional_fields,
    selects_store,
)

Strings = list[str] | tuple[str, ...]
JsonObject = dict[str, Any]
JsonObjects = list[JsonObject] | tuple[JsonObject, ...]

TYPES = {
    "array": "Strings",
    "boolean": "bool",
    "integer": "int",
    "null": "None",
    "number": "float",
    "object": "JsonObject",
    "string": "str",
}
# Names of types in signatures that are no built-in ones.
NAMESPACE = {
    "Any": Any,
    "JsonObject": JsonObject,
    "JsonObjects": JsonObjects,
    "Literal": Literal,
    "Strings": Strings,
}
ALIASES = {"create": "write"}  # blocks call it `write`
ALIASED_NOUNS = ("records", "entries")


@dataclass(frozen=True, slots=True)
class Interface:
    """A client or an embedded store. `prefix` begins the names of its classes."""

    prefix: str
    title: str
    is_async: bool
    has_pipelines: bool


REMOTE = Interface("Remote", "async client", is_async=True, has_pipelines=True)
BLOCKING = Interface("Blocking", "blocking client", is_async=False, has_pipelines=True)
# An embedded store, and a plain block.
EMBEDDED = Interface("Embedded", "embedded store", is_async=False, has_pipelines=False)
ASYNC = Interface("Async", "async block", is_async=True, has_pipelines=False)


class Noun:
    """A noun of the operations. `call` takes an operation and the arguments of its method."""

    def __init__(self, call: Callable[[Operation, JsonObject], Any]) -> None:
        self._call = call


class Nouns:
    """An object with an attribute per noun. A subclass defines `_call` for all methods."""

    _interface: ClassVar[Interface]
    _call: Callable[[Operation, JsonObject], Any]

    def __getattr__(self, name: str) -> Any:
        noun_class = None if name.startswith("_") else find_noun_class(self._interface, name)
        if noun_class is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        noun = noun_class(self._call)
        setattr(self, name, noun)
        return noun

    def __dir__(self) -> list[str]:
        nouns = {operation.noun for operation in all_operations().values()}
        return sorted({*super().__dir__(), *nouns})


class _LazyMethod:
    """A method of a noun class. When it is first used, the compiled function takes its place."""

    def __init__(self, interface: Interface, operation: Operation, name: str) -> None:
        self._interface, self._operation, self._name = interface, operation, name

    def __get__(self, noun: Noun | None, owner: type[Noun]) -> Any:
        function = _compile_method(self._interface, self._operation, self._name)
        function.__module__ = owner.__module__
        function.__qualname__ = f"{owner.__name__}.{self._name}"
        setattr(owner, self._name, function)
        return getattr(owner if noun is None else noun, self._name)


@cache
def find_noun_class(interface: Interface, noun: str) -> type[Noun] | None:
    """Return the class with the operations on a noun as methods. None if there are none."""
    methods = {
        name: _LazyMethod(interface, operation, name)
        for operation in operations_on(noun)
        for name in list_method_names(operation)
    }
    if not methods:
        return None
    head = {"__doc__": describe_noun(interface, noun), "__module__": "memrelay.client.nouns"}
    return type(make_class_name(interface.prefix, noun), (Noun,), {**head, **methods})


def make_class_name(prefix: str, noun: str) -> str:
    """Return the name of a noun class: `RemoteMemoryTool` for `memory_tool`."""
    return prefix + noun.title().replace("_", "")


def describe_noun(interface: Interface, noun: str) -> str:
    """Return the docstring of a noun class."""
    return f"The operations on {noun.replace('_', ' ')}, for the {interface.title}."


def list_method_names(operation: Operation) -> list[str]:
    """Return the verb of an operation, then its aliases. The keyword `import` becomes `import_`."""
    verb = operation.verb
    names = [f"{verb}_" if keyword.iskeyword(verb) else verb]
    if operation.noun in ALIASED_NOUNS and verb in ALIASES:
        names.append(ALIASES[verb])
    return names


def list_parameters(interface: Interface, operation: Operation) -> list[str]:
    """Return the source of each parameter, with `self` and `*`."""
    schema = input_schema(operation)
    required, first = schema["required"], positional_fields(operation)
    # Python allows no parameter without a default after one with a default. The operation refuses
    # the default "" of a required text.
    has_optional_first = any(name not in required for name in first)
    positional: list[str] = []
    named: list[str] = []
    for name in _order_fields(operation):
        field: JsonObject = schema["properties"][name]
        if name not in required:
            field = {"default": {}} | field
        elif has_optional_first:
            field = field | {"default": ""}
        parameters = positional if name in (*first, "query") else named
        parameters.append(_write_parameter(name, field))
    if interface.has_pipelines:
        positional.insert(0, "pipeline: str")
        if selects_store(operation):
            named.append(f'{STORE}: str = ""')
        if operation.mutates:
            named.append("idempotency_key: str | None = None")
    if operation.takes_as_of:
        named.append(f'{AS_OF}: str = ""')
    return ["self", *positional, *(["*", *named] if named else [])]


def name_output(operation: Operation) -> str:
    """Return the name of the type that the methods of an operation return."""
    if get_origin(operation.output) is dict:
        return TYPES["object"]
    return "None" if operation.output is NoneType else str(operation.output.__name__)


def _compile_method(interface: Interface, operation: Operation, name: str) -> FunctionType:
    """Return a function with the parameters and types of an operation.

    It is compiled from source text, as the methods of dataclasses are, so that Python checks the
    arguments. nouns.pyi has the same signature.
    """
    define, call = "def", "self._call"
    if interface.is_async:
        define, call = "async def", "await self._call"
    parameters = ", ".join(list_parameters(interface, operation))
    source = (
        f"{define} {name}({parameters}) -> {name_output(operation)}:\n"
        f"    return {call}(_operation, locals())\n"
    )
    namespace = NAMESPACE | {"_operation": operation, name_output(operation): operation.output}
    exec(compile(source, f"<{operation.name}>", "exec"), namespace)
    function = namespace[name]
    assert isinstance(function, FunctionType)
    function.__doc__ = operation.summary
    return function


def _order_fields(operation: Operation) -> list[str]:
    """Return the fields of the input. The calling agent is first, as it is always named."""
    fields = list(input_schema(operation)["properties"])
    return sorted(fields, key=lambda name: name != "agent") if operation.has_caller else fields


def _write_parameter(name: str, field: JsonObject) -> str:
    default = f" = {_write_value(field['default'])}" if "default" in field else ""
    return f"{name}: {_write_type(field)}{default}"


def _write_type(field: JsonObject) -> str:
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_write_type(option) for option in field["anyOf"]))
    if "enum" in field:
        return f"Literal[{', '.join(_write_value(value) for value in field['enum'])}]"
    if holds_objects(field):
        return "JsonObjects"
    return TYPES[field["type"]] if "type" in field else "Any"


def _write_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "()" if value == [] else repr(value)
