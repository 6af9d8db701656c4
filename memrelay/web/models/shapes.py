"""JSON shapes of requests and answers, derived from the inputs and outputs of the operations."""

import dataclasses
import re
import types
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, JsonValue, with_config
from typing_extensions import TypedDict, is_typeddict  # required before Python 3.12

from memrelay.memory.operations import all_operations
from memrelay.web.models.request_fields import EACH, Body, Fields, Json

UNIONS = (Union, types.UnionType)
CAMEL_CASE = re.compile(r"(?<=[a-z])([A-Z])")
# The names of a shape's fields in the output from which it derives.
_SOURCES: dict[Any, dict[str, str]] = {}


def derive_shape(
    module: str, name: str, source: str, description: str, fields: str, /, **others: Any
) -> Any:
    """Return the type of an answer, derived from the output of an operation.

    `source` is the operation, or a pointer into its output, such as `kv.get/items/0`. `fields` are
    the names in the answer. `createdAt` is `created_at` in the output, and `storeId=store` is
    `store`. `label?` may be absent, and `label??` may also be null. `others` are the types of
    fields that the output lacks, or has with another type. `module` and `name` are those of the
    new type.
    """
    operation, _, pointer = source.partition("/")
    path = pointer.split("/") if pointer else []
    output, _ = _find_type(all_operations()[operation].output, path)
    hints = {
        one: JsonValue if hint is Any else hint for one, hint in get_type_hints(output).items()
    }
    members, sources = _select_fields(hints, fields, others)
    return make_shape(module, name, description, members, sources)


def derive_body(
    module: str, name: str, operation: str, description: str, fields: str, /, **others: Any
) -> Any:
    """Return the type of a body, derived from the input of an operation as in `derive_shape`."""
    hints = get_type_hints(all_operations()[operation].input, include_extras=True)
    members, sources = _select_fields(hints, fields, others)
    return make_shape(module, name, description, members, sources)


def _select_fields(hints: Json, fields: str, others: Json) -> tuple[Json, dict[str, str]]:
    """Return (the type of each field, its name in the output or input)."""
    members, sources = dict[str, Any](), dict[str, str]()
    for field in fields.split():
        target, _, renamed = field.partition("=")
        key = target.rstrip("?")
        sources[key] = renamed or (key if key in hints else _to_snake_case(key))
        hint = others[key] if key in others else hints[sources[key]]
        if target.endswith("??"):
            hint = hint | None
        members[key] = NotRequired[hint] if target.endswith("?") else hint
    return members | {key: others[key] for key in others if key not in members}, sources


def make_shape(
    module: str,
    name: str,
    description: str,
    members: Json,
    sources: Mapping[str, str] | None = None,
) -> Any:
    """Return the type of an object with these members and no others."""
    shape = TypedDict(name, members)  # type: ignore[misc]
    shape.__module__, shape.__doc__ = module, description
    _SOURCES[shape] = dict(sources or {})
    return with_config(ConfigDict(extra="forbid"))(shape)


def array_of(shape: Any) -> Any:
    """Return the type of an array."""
    return list[shape]


def to_shape(shape: Any, output: Any) -> Any:
    """Return an output in a shape. Fields that the caller may not read are absent.

    Values of any type stay as they are.
    """
    if get_origin(shape) is NotRequired:
        return to_shape(get_args(shape)[0], output)
    if get_origin(shape) is list and isinstance(output, list):
        return [to_shape(get_args(shape)[0], one) for one in output]
    if not is_typeddict(shape) or not isinstance(output, dict):
        return output
    found: Json = {}
    for name, source, inner in _list_fields(shape):
        for known in (source, name):
            if known in output:
                found[name] = to_shape(inner, output[known])
                break
    return found


@cache
def _list_fields(shape: Any) -> list[tuple[str, str, Any]]:
    """Return (name, name in the output, type) of each field of a shape."""
    sources = _SOURCES.get(shape, {})
    return [
        (name, sources.get(name) or _to_snake_case(name), hint)
        for name, hint in get_type_hints(shape).items()
    ]


def _to_snake_case(name: str) -> str:
    return CAMEL_CASE.sub(r"_\1", name).lower()


def make_body_shape(name: str, source: type, body: Body) -> Any:
    """Return the type of a body. `source` is the input of the operation, `name` is unique."""
    if body.whole:
        return dict[str, Any]
    ignored = dict.fromkeys(body.read_only, NotRequired[Any])
    shape = _make_shape(f"{name}_body", source, body.fields, ignored)
    if not body.batch:
        return shape
    of_items = {body.batch_key: {EACH: ignored}} if ignored else {}
    return shape | _make_shape(f"{name}_batch", source, body.batch, of_items)


def _make_shape(name: str, source: type, fields: Fields, ignored: Json) -> Any:
    tree: Json = {**ignored}
    for target, spellings in fields.items():
        hint, is_required = _find_type(source, target.split("/"))
        leaf = hint if is_required and len(spellings) == 1 else NotRequired[hint]
        for spelling in spellings:
            *heads, last = spelling.split("/")
            inner = tree
            for head in heads:
                inner = inner.setdefault(head, {})
            inner[last] = leaf
    return _to_type(name, tree)


def _to_type(name: str, tree: Json) -> Any:
    """Return the type of an object, or of a list of objects."""
    if EACH in tree:
        return list[_to_type(name, tree[EACH])]  # type: ignore[misc]
    members: Json = {}
    for key, member in tree.items():
        if isinstance(member, dict):
            inner = _to_type(f"{name}_{key}", member)
            members[key] = inner if _has_required(member.values()) else NotRequired[inner]
        else:
            members[key] = member
    shape = TypedDict(name, members)  # type: ignore[misc]
    return with_config(ConfigDict(extra="forbid"))(shape)


def _has_required(members: Iterable[Any]) -> bool:
    return any(
        _has_required(one.values()) if isinstance(one, dict) else get_origin(one) is not NotRequired
        for one in members
    )


def _find_type(hint: Any, path: list[str]) -> tuple[Any, bool]:
    """Return the type at a path in an input, and whether it is required there."""
    if not path:
        return hint, True
    head, *rest = path
    is_required = True
    for one in _alternatives(hint):
        if dataclasses.is_dataclass(one):
            (member,) = [one for one in dataclasses.fields(one) if one.name == head]
            has_default = member.default is not dataclasses.MISSING
            is_required = not has_default and member.default_factory is dataclasses.MISSING
            inner = get_type_hints(one, include_extras=True)[head]
        elif is_typeddict(one):
            is_required = head in one.__required_keys__
            inner = get_type_hints(one, include_extras=True)[head]
        elif get_origin(one) in (list, tuple):
            inner = get_args(one)[0]
        else:
            continue
        found, is_inner_required = _find_type(inner, rest)
        return found, is_required and is_inner_required
    return Any, False


def _alternatives(hint: Any) -> list[Any]:
    """Return the types of a union without their annotations."""
    if get_origin(hint) in (Annotated, NotRequired):
        return _alternatives(get_args(hint)[0])
    if get_origin(hint) in UNIONS:
        return [inner for one in get_args(hint) for inner in _alternatives(one)]
    return [hint]
