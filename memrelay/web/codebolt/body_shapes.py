"""JSON shapes of request bodies, built from the inputs of the operations and their spellings."""

import dataclasses
import types
from collections.abc import Iterable
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict, is_typeddict  # required before Python 3.12

from memrelay.web.codebolt.declaration import Body
from memrelay.web.codebolt.fields import EACH, Fields, Json

UNIONS = (Union, types.UnionType)


def make_body_shape(name: str, given: type, body: Body) -> Any:
    """Return the type of a body. `given` is the input of the operation, `name` is unique."""
    if body.whole:
        return dict[str, Any]
    ignored = dict.fromkeys(body.read_only, NotRequired[Any])
    shape = _make_shape(f"{name}_body", given, body.fields, ignored)
    if not body.batch:
        return shape
    of_items = {body.batch_key: {EACH: ignored}} if ignored else {}
    return shape | _make_shape(f"{name}_batch", given, body.batch, of_items)


def _make_shape(name: str, given: type, fields: Fields, ignored: Json) -> Any:
    tree: Json = {**ignored}
    for target, spellings in fields.items():
        hint, is_required = _find_type(given, target.split("/"))
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
