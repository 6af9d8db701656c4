"""Check the operations of a LangGraph store and translate them into inputs of Memrelay.

Every error is a ValueError, and is raised before anything runs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    get_text_at_path,
)

from memrelay.memory.models.langgraph import LANGGRAPH_ITEM_KIND
from memrelay.memory.models.langgraph.table import AFTER_SEPARATOR, ANY, MAX_TTL_M, SEPARATOR
from memrelay.memory.records.data import checked
from memrelay.memory.records.filters import parse_filter
from memrelay.memory.records.view import MAX_NAME_CHARACTERS
from memrelay.memory.validation import find_closest

Json = dict[str, Any]
WHOLE_VALUE = "$"
# Results of one search with a query, including those that it skips.
MAX_RANKED = 1000
OPERATORS = {"$eq": "eq", "$ne": "ne", "$gt": "gt", "$gte": "gte", "$lt": "lt", "$lte": "lte"}


@dataclass(frozen=True, slots=True)
class Get:
    """A look-up."""

    scope: str
    key: str
    refresh: bool


@dataclass(frozen=True, slots=True)
class Search:
    """A search. `query` is the input of records.list, or of records.search for a query."""

    query: Json
    is_ranked: bool
    offset: int
    limit: int
    refresh: bool


@dataclass(frozen=True, slots=True)
class ListScopes:
    """A list of namespaces. `query` is the input of records.scopes, None if no scope can match."""

    query: Json | None
    offset: int
    limit: int


@dataclass(frozen=True, slots=True)
class Put:
    """A write of an item, or its deletion if `item`, which records.put takes, is None."""

    scope: str
    key: str
    item: Json | None


Step = Get | Search | ListScopes | Put


def make_step(op: Any, fields: tuple[str, ...]) -> Step:
    """Return the checked operation. `fields` are paths of the texts by which items are found.

    Raises ValueError and InvalidNamespaceError.
    """
    match op:
        case GetOp():
            return Get(item_scope(op.namespace), checked_key(op.key), bool(op.refresh_ttl))
        case SearchOp():
            return _search(op)
        case ListNamespacesOp():
            return _list_scopes(op)
        case PutOp():
            return _put(op, fields)
    raise ValueError(
        f"unknown operation {type(op).__name__}; use GetOp, SearchOp, PutOp or "
        "ListNamespacesOp of langgraph.store.base"
    )


def make_scope(labels: Iterable[Any]) -> str:
    """Return the scope of a namespace, "" without labels. Raises InvalidNamespaceError."""
    labels = tuple(labels)
    for label in labels:
        if not isinstance(label, str) or not label or SEPARATOR in label:
            raise InvalidNamespaceError(
                f"a label of a namespace is a text without periods, not {label!r:.100}"
            )
    scope = SEPARATOR.join(labels)
    if len(scope) > MAX_NAME_CHARACTERS or not _is_unicode(scope):
        raise InvalidNamespaceError(
            f"a namespace, joined by periods, has at most {MAX_NAME_CHARACTERS} characters of "
            f"valid Unicode; {scope[:40]!r}... does not"
        )
    return scope


def item_scope(namespace: Iterable[Any]) -> str:
    """Return the scope of an item. Raises InvalidNamespaceError, also for one without labels."""
    if scope := make_scope(namespace):
        return scope
    raise InvalidNamespaceError("the namespace of an item needs at least one label")


def checked_key(key: Any) -> str:
    """Return a key. Raises ValueError."""
    if isinstance(key, str) and 0 < len(key) <= MAX_NAME_CHARACTERS and _is_unicode(key):
        return key
    raise ValueError(
        f"a key is a text of 1 to {MAX_NAME_CHARACTERS} characters of valid Unicode, not "
        f"{key!r:.100}"
    )


def checked_ttl(ttl: Any) -> float | None:
    """Return a time to live in minutes, None for none. Raises ValueError."""
    if ttl is None:
        return None
    is_number = isinstance(ttl, int | float) and not isinstance(ttl, bool)
    if not is_number or not 0 < ttl <= MAX_TTL_M:
        raise ValueError(
            f"`ttl` is a number of minutes above 0 and at most {MAX_TTL_M}, or None for an item "
            f"that never expires; got {ttl!r:.100}"
        )
    return float(ttl)


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _put(op: PutOp, fields: tuple[str, ...]) -> Put:
    scope, key = item_scope(op.namespace), checked_key(op.key)
    if op.value is None:
        return Put(scope, key, None)
    if not isinstance(op.value, Mapping):
        raise ValueError(f"`value` of {key!r} is a dictionary, not {type(op.value).__name__}")
    ttl, value = checked_ttl(op.ttl), dict(op.value)
    checked({"value": value} | ({} if ttl is None else {"ttl_m": ttl}))
    item = {"scope": scope, "key": key, "data": {"value": value}}
    item["content"] = _content(value, fields if op.index is None else op.index)
    return Put(scope, key, item if ttl is None else item | {"ttl": ttl})


def _content(value: Json, index: Any) -> str:
    """Return the text by which an item is found: the texts at the paths, one per line."""
    if index is False:
        return ""
    texts = (
        _readable_lines(value) if path == WHOLE_VALUE else get_text_at_path(value, path)
        for path in checked_fields(index)
    )
    return "\n".join(chain.from_iterable(texts))


def _readable_lines(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts within a value, each with its keys, like `food preference: pizza`.

    Questions are nearer in meaning to such lines than to JSON: of eight questions, the built-in
    embedder found the answers to seven instead of five.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _readable_lines(inner, f"{name} {key.replace('_', ' ')}".strip())
    elif isinstance(value, list):
        plain = [str(inner) for inner in value if not isinstance(inner, dict | list | None)]
        if plain:
            yield f"{name}: {', '.join(plain)}"
        for inner in value:
            if isinstance(inner, dict | list):
                yield from _readable_lines(inner, name)
    elif value is not None:
        yield f"{name}: {value}"


def checked_fields(fields: Any) -> tuple[str, ...]:
    """Return paths of texts. Raises ValueError."""
    if isinstance(fields, list | tuple) and all(isinstance(path, str) for path in fields):
        return tuple(fields)
    raise ValueError(
        f'`index` and `fields` are lists of paths, like ["text", "tags[*]"]; got {fields!r:.100}'
    )


# Searches.


def _search(op: SearchOp) -> Search:
    _check_window(op.offset, op.limit)
    is_ranked = bool(op.query)
    query: Json = {"kind": LANGGRAPH_ITEM_KIND}
    conditions = _within(make_scope(op.namespace_prefix)) | translate_filter(op.filter or {})
    if conditions:
        parse_filter(conditions)
        query["filter"] = conditions
    if is_ranked:
        if op.offset + op.limit > MAX_RANKED:
            raise ValueError(
                f"a search with a query has at most {MAX_RANKED} results, including the skipped "
                f"ones; got offset {op.offset} and limit {op.limit}"
            )
        query |= {"query": op.query, "mode": "hybrid", "plain": True}
    else:
        query |= {"sort": "updated_at", "order": "desc"}
    return Search(query, is_ranked, op.offset, op.limit, bool(op.refresh_ttl))


def _check_window(offset: Any, limit: Any) -> None:
    if not all(isinstance(number, int) and number >= 0 for number in (offset, limit)):
        raise ValueError(
            f"`offset` and `limit` are integers from 0 on; got {offset!r:.40} and {limit!r:.40}"
        )


def _within(scope: str) -> Json:
    """Return the condition that a scope is this one or below it. An index serves the range."""
    if not scope:
        return {}
    return {
        "scope": {"gte": scope, "lt": scope + AFTER_SEPARATOR},
        "or": [{"scope": {"eq": scope}}, {"scope": {"gte": scope + SEPARATOR}}],
    }


def translate_filter(filter: Mapping[str, Any]) -> Json:
    """Return LangGraph's filter on values in the filter language of Memrelay. Raises ValueError."""
    conditions: Json = {}
    for key, value in filter.items():
        _add_condition(_extended("data.value", key), value, conditions)
    return conditions


def _add_condition(path: str, expected: Any, conditions: Json) -> None:
    if not isinstance(expected, dict):
        conditions[path] = {"eq": _scalar(expected)}
    elif not expected:
        raise ValueError("an empty object in a filter matches nothing; name a key of it")
    elif any(isinstance(key, str) and key.startswith("$") for key in expected):
        conditions[path] = {_operator(key): _scalar(value) for key, value in expected.items()}
    else:
        # A condition like $ne also holds for a missing value, but not within a missing object.
        conditions[path] = {"ne": None}
        for key, value in expected.items():
            _add_condition(_extended(path, key), value, conditions)


def _extended(path: str, key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"the keys of a filter are texts, not {key!r:.100}")
    return f"{path}.{key if key.isidentifier() else orjson.dumps(key).decode()}"


def _operator(name: Any) -> str:
    if name in OPERATORS:
        return OPERATORS[name]
    near = find_closest(str(name), OPERATORS)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(OPERATORS)}"
    raise ValueError(f"unknown operator {str(name)[:100]!r} in a filter ({hint})")


def _scalar(value: Any) -> Any:
    if isinstance(value, list | tuple | dict):
        raise ValueError(
            "a filter compares with a text, a number, true, false or None, not with a "
            f"{type(value).__name__}; filter for the keys of an object, and compare lists after "
            "the search"
        )
    return value


# Lists of namespaces.


def _list_scopes(op: ListNamespacesOp) -> ListScopes:
    _check_window(op.offset, op.limit)
    depth = op.max_depth
    if depth is not None and not (isinstance(depth, int) and depth > 0):
        raise ValueError(f"`max_depth` is an integer above 0 or None; got {depth!r:.40}")
    conditions = op.match_conditions or ()
    prefix, suffix = (_merged(conditions, end) for end in ("prefix", "suffix"))
    if prefix is None or suffix is None:
        return ListScopes(None, op.offset, op.limit)
    query: Json = {"prefix": prefix, "suffix": suffix}
    if depth is not None:
        # No scope has more labels than characters.
        query["max_depth"] = min(depth, MAX_NAME_CHARACTERS)
    return ListScopes(query, op.offset, op.limit)


def _merged(conditions: Iterable[MatchCondition], match_type: str) -> list[str] | None:
    """Return one list of labels for all conditions of a type, None if they exclude each other."""
    step = 1 if match_type == "prefix" else -1
    merged: list[str] = []
    for condition in conditions:
        if condition.match_type not in ("prefix", "suffix"):
            raise ValueError(f"a match type is prefix or suffix, not {condition.match_type!r:.40}")
        if condition.match_type != match_type:
            continue
        make_scope(condition.path)
        for index, label in enumerate(condition.path[::step]):
            if index == len(merged):
                merged.append(label)
            elif merged[index] == ANY:
                merged[index] = label
            elif label not in (ANY, merged[index]):
                return None
    return merged[::step]
