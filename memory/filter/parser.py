"""Reads a filter: JSON in, a tree out, or everything that is wrong, by place."""

import re
from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.filter.fields import FIELDS, GROUPS, LISTS, OPERATORS, ORDERED, TAKES, Sort
from memrelay.memory.records.data import NUL, number_fault, text_fault
from memrelay.memory.timestamps import as_us
from memrelay.memory.validation import Faults, Place, closest

# A field as it is written: a name, or `data` with keys behind dots. One with a dot or a quote
# stands in quotes, as in JSON.

MOST_STEPS = 16
MOST_CHARACTERS = 1024
_STEP = r'"(?:[^"\\]|\\.)*"|[^."]+'
_PATH = re.compile(rf"data(?:\.(?:{_STEP}))+", re.DOTALL)
_STEPS = re.compile(rf"\.({_STEP})", re.DOTALL)


def steps_of(field: str) -> tuple[str, ...] | None:
    """The keys behind `data.`; None where it is written otherwise."""
    if len(field) > MOST_CHARACTERS or not _PATH.fullmatch(field):
        return None
    try:
        found = tuple(
            orjson.loads(step) if step[0] == '"' else step for step in _STEPS.findall(field)
        )
        "".join(found).encode()
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    return found if len(found) <= MOST_STEPS and NUL not in "".join(found) else None


# A filter that was read: a tree of conditions. Each of them is true of a record or false, and
# never anything between.

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Every:
    """All of them hold; with none, this holds."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Some:
    """One of them holds, or more; with none, this does not."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """It does not hold."""

    part: "Node"


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one field. Times are Unix ms in `value`, with a fraction where they are
    between two."""

    field: str
    path: tuple[str, ...]  # the keys below `data`
    operator: str  # but ne and nin, which are read as Not
    value: Scalar | tuple[Scalar, ...]  # a tuple for `in`


Node = Every | Some | Not | Condition


# What a condition's value may be, by the sort of its field; times become numbers.

MOST_CONTAINED = (
    256  # characters: looking for a long text in a long one takes time with the product of both
)
WANTED: dict[Sort, str] = {
    "text": "a text",
    "number": "a number",
    "time": "a time in RFC 3339, or Unix ms as a number",
    "flag": "true or false",
    "tags": "a text",
    "data": "a text, a number, true, false or null",
}


class Unfit(Exception):
    """The value is none for this operator on this field; the text says what is."""


def fitting(value: Any, sort: Sort, operator: str, *, nullable: bool) -> Any:
    """The value, as it is compared. Raises Unfit."""
    if operator == "exists":
        if not isinstance(value, bool):
            raise Unfit("takes true or false")
        return value
    if operator in ORDERED:
        return _ordered(value, sort, operator)
    if value is None and operator != "contains" and nullable:
        return None
    found = _of_sort(value, sort)
    if operator == "contains" and isinstance(found, str) and len(found) > MOST_CONTAINED:
        raise Unfit(f"takes a text of at most {MOST_CONTAINED} characters")
    return found


def _ordered(value: Any, sort: Sort, operator: str) -> Any:
    if sort == "data" and (value is None or isinstance(value, bool)):
        raise Unfit(f"{operator} compares with a text or a number: nothing else has an order")
    return _of_sort(value, sort)


def _of_sort(value: Any, sort: Sort) -> Any:
    """The value where it is of this sort. Raises Unfit."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if sort == "flag" and isinstance(value, bool):
        return int(value)
    if sort == "data" and (value is None or isinstance(value, bool)):
        return value
    if isinstance(value, str) and sort in ("text", "tags", "data"):
        return _checked(value, text_fault(value))
    if is_number and sort in ("number", "time", "data"):
        return _checked(value, number_fault(value))
    if isinstance(value, str) and sort == "time" and (unix_us := as_us(value)) is not None:
        return unix_us / 1000 if unix_us % 1000 else unix_us // 1000
    raise Unfit(f"must be {WANTED[sort]}")


def _checked(value: Any, rule: str) -> Any:
    if rule:
        raise Unfit(rule)
    return value


# a field, an operator, a group and each filter in one is a piece: SQL has bounds, and each costs
# time
MOST_PIECES = 128
MOST_DEPTH = 8  # of groups in each other
MOST_LISTED = 1000  # values in all lists together
NULLABLE = ("key", "owner", "expires_at", "thread", "seq", "data")
NOTHING = Every(())
PATHS = f'the keys of data are written data.key.key, {MOST_STEPS} at most; one with a dot or a quote in it like data."a.b"'


def read_filter(given: Any) -> Node:
    """The tree. Raises ValidationError."""
    reading = _Reading()
    node = reading.filter(given, (), 0)
    reading.faults.raise_any("filter")
    return node


class _Reading:
    """A filter while it is read."""

    def __init__(self) -> None:
        self.faults = Faults()
        self._pieces = self._listed = 0

    def filter(self, given: Any, place: Place, depth: int) -> Node:
        """An object: all of what it says holds."""
        if not isinstance(given, dict):
            return self._wrong(place, 'a filter is an object, like {"kind": {"eq": "note"}}')
        if depth > MOST_DEPTH:
            return self._wrong(
                place, f"and, or and not stand at most {MOST_DEPTH} deep in each other"
            )
        parts = []
        for name, held in given.items():
            if not self._has_room((*place, name)):
                break
            read = self._group if name in GROUPS else self._field
            parts.append(read(name, held, (*place, name), depth))
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _group(self, name: str, held: Any, place: Place, depth: int) -> Node:
        if name == "not":
            return Not(self.filter(held, place, depth + 1))
        if not isinstance(held, list | tuple):
            return self._wrong(place, f"{name} takes a list of filters")
        parts = []
        for at, one in enumerate(held):
            if not self._has_room((*place, at)):
                break
            parts.append(self.filter(one, (*place, at), depth + 1))
        return Every(tuple(parts)) if name == "and" else Some(tuple(parts))

    def _field(self, name: str, held: Any, place: Place, depth: int) -> Node:
        path: tuple[str, ...] = ()
        if name not in FIELDS:
            if not isinstance(name, str) or not name.startswith("data."):
                return self._wrong(place, _unknown("field", name, (*FIELDS, *GROUPS)))
            steps = steps_of(name)
            if steps is None:
                return self._wrong(place, PATHS)
            name, path = "data", steps
        if not isinstance(held, dict) or not held:
            return self._wrong(place, 'takes an object of operators, like {"eq": "note"}')
        parts = [
            self._operator(name, path, operator, value, (*place, operator))
            for operator, value in held.items()
            if self._has_room((*place, operator))
        ]
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _operator(
        self, field: str, path: tuple[str, ...], operator: str, value: Any, place: Place
    ) -> Node:
        sort = FIELDS[field]
        if operator not in OPERATORS:
            return self._wrong(place, _unknown("operator", operator, TAKES[sort]))
        if operator not in TAKES[sort]:
            return self._wrong(
                place, f"{field} does not take {operator}; it takes {', '.join(TAKES[sort])}"
            )
        if operator in LISTS:
            found = self._list(field, sort, operator, value, place)
        else:
            found = self._value(field, sort, operator, value, place)
        if operator == "exists":
            return _unless(not found, Condition(field, path, operator, True))
        plain = {"ne": "eq", "nin": "in"}.get(operator, operator)
        return _unless(plain != operator, Condition(field, path, plain, found))

    def _list(
        self, field: str, sort: Sort, operator: str, given: Any, place: Place
    ) -> tuple[Any, ...]:
        if not isinstance(given, list | tuple):
            self.faults.add(place, f"{operator} takes a list of values", None)
            return ()
        self._listed += len(given)
        if self._listed > MOST_LISTED:
            self.faults.add(
                place, f"lists have at most {MOST_LISTED} values, all of a filter together", None
            )
            return ()
        return tuple(
            self._value(field, sort, operator, one, (*place, at)) for at, one in enumerate(given)
        )

    def _value(self, field: str, sort: Sort, operator: str, given: Any, place: Place) -> Any:
        try:
            return fitting(given, sort, operator, nullable=field in NULLABLE)
        except Unfit as error:
            self.faults.add(place, str(error), None)
            return None

    def _has_room(self, place: Place) -> bool:
        self._pieces += 1
        if self._pieces == MOST_PIECES + 1:
            self.faults.add(
                place,
                f"a filter has at most {MOST_PIECES} pieces: fields, operators, groups and filters in them",
                None,
            )
        return self._pieces <= MOST_PIECES

    def _wrong(self, place: Place, rule: str) -> Node:
        self.faults.add(place, rule, None)
        return NOTHING


def _unless(negative: bool, condition: Condition) -> Node:
    return Not(condition) if negative else condition


def _unknown(what: str, word: Any, known: tuple[str, ...]) -> str:
    """A refusal by name, with what may be meant."""
    name = str(word)[:100]
    near = closest(str(word), known)
    return f"there is no {what} {name!r}; " + (
        f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
    )
