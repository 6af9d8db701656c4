"""Random records and filters, and an oracle for docs/filters.md in plain Python."""

import json
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.memory.builders import NOW

Json = Any
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "1",
    "1.0",
    "true",
    "null",
    "é",
    "e\u0301",
    "ß",
    "日本",
    "😀",
    "\uffff",
    "\x00",
    "a\x00b",
    "'",
    '"',
    "\\",
    "%",
    "a%",
    "_",
    "'; DROP TABLE records; --",
    "[1]",
    '{"a":1}',
    " ",
    "\u2028",
]
NUMBERS = [
    0,
    1,
    -1,
    1.0,
    -0.0,
    0.1,
    2**53,
    2**53 + 1,
    float(2**53),
    2**63 - 1,
    -(2**63),
    float(2**63),
    1e308,
    5e-324,
    -1.5,
]
KEYS = [
    "a",
    "b",
    "a.b",
    "",
    " ",
    '"',
    "\\",
    "'",
    "é",
    "😀",
    "$",
    "[0]",
    "0",
    "\x01",
    "eq",
    "and",
    "data",
    "a\nb",
    "\x7f",
]
MISSING = object()
INDIA = timezone(timedelta(hours=5, minutes=30))
PATHS: dict[str, tuple[str, ...]] = {}  # path as written -> its keys

texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
numbers = (
    st.sampled_from(NUMBERS)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
scalars = st.none() | st.booleans() | texts | numbers
keys = st.sampled_from(KEYS) | texts.filter(lambda text: "\0" not in text)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
few = st.sampled_from(["", "a", "A", "é", "日本"])  # few values, so that records share them
moments = st.sampled_from([NOW, NOW + 1, NOW + 1000, NOW + 86_400_000])

records = st.fixed_dictionaries(
    {
        "content": few.map(lambda text: f"tea {text}"),
        "now_ms": moments,
        "data": st.dictionaries(keys, values, max_size=4),
        "in_context": st.booleans(),
        "key": few,
        "owner": few,
        "tags": st.lists(st.sampled_from(["a", "A", "é", "'"]), max_size=2, unique=True),
        "thread": few,
    },
    optional={"kind": st.sampled_from(["a", "b"]), "scope": few, "source": few},
)


def _write_path(steps: list[str]) -> str:
    """Return the path in a valid notation."""
    text = "data" + "".join(
        f".{step}"
        if step and not set('."') & set(step)
        else f".{json.dumps(step, ensure_ascii=len(step) % 2 == 0)}"
        for step in steps
    )
    PATHS[text] = tuple(steps)
    return text


def _time(ms: int) -> st.SearchStrategy[Json]:
    """Return the same time, or one next to it, in some notation."""
    text = datetime.fromtimestamp(ms // 1000, INDIA).isoformat()
    return st.sampled_from(
        [ms, float(ms), ms + 0.5, text, text[:19] + ".0005" + text[19:], text[:10]]
    )


paths = (st.lists(keys, max_size=3) | keys.map(lambda key: [key])).map(_write_path)
times = moments.flatmap(_time)
flags = st.booleans()


def _conditions(
    fields: st.SearchStrategy[str],
    plain: st.SearchStrategy[Json],
    ordered: st.SearchStrategy[Json] | None,
    contained: st.SearchStrategy[Json] | None,
) -> st.SearchStrategy[Json]:
    """Return conditions on one field with one or two operators."""
    several = st.lists(plain, max_size=3)
    operators = {"eq": plain, "ne": plain, "in": several, "nin": several, "exists": flags}
    operators |= dict.fromkeys(("gt", "gte", "lt", "lte"), ordered) if ordered is not None else {}
    operators |= {"contains": contained} if contained is not None else {}
    one = st.sampled_from(sorted(operators)).flatmap(
        lambda name: st.tuples(st.just(name), operators[name])
    )
    return st.tuples(fields, st.lists(one, min_size=1, max_size=2).map(dict)).map(
        lambda pair: {pair[0]: pair[1]}
    )


named = few | texts
conditions = st.one_of(
    _conditions(
        st.sampled_from(["guid", "scope", "kind", "content", "source"]), named, named, named
    ),
    _conditions(st.sampled_from(["key", "owner", "thread"]), named | st.none(), named, named),
    _conditions(st.sampled_from(["created_at", "updated_at"]), times, times, None),
    _conditions(st.just("seq"), st.integers(-1, 3) | numbers | st.none(), numbers, None),
    _conditions(st.just("in_context"), flags, None, None),
    st.tuples(
        st.just("tags"),
        st.fixed_dictionaries({"contains": few}) | st.fixed_dictionaries({"exists": flags}),
    ).map(lambda pair: dict([pair])),
    _conditions(paths, scalars, texts | numbers, scalars),
)
filters = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds(lambda one, other: one | other, inner, inner),
        inner.map(lambda one: {"not": one}),
        st.lists(inner, max_size=3).map(lambda parts: {"and": parts}),
        st.lists(inner, max_size=3).map(lambda parts: {"or": parts}),
    ),
    max_leaves=5,
)


def aimed_at(data: dict[str, Json]) -> st.SearchStrategy[Json]:
    """Return conditions on values of a record's data. They hold more often than random ones."""
    found = [([key], held) for key, held in data.items()]
    found += [
        ([key, inner], one)
        for key, held in data.items()
        if isinstance(held, dict)
        for inner, one in held.items()
    ]
    return (
        st.one_of(
            *[_conditions(st.just(_write_path(steps)), *_near(held)) for steps, held in found]
        )
        if found
        else filters
    )


def _near(held: Json) -> tuple[st.SearchStrategy[Json], ...]:
    same = [
        one
        for one in (held if isinstance(held, list) else [held])
        if not isinstance(one, list | dict)
    ] or [None]
    ordered = [one for one in same if isinstance(one, str) or is_number(one)] or [0]
    return (
        st.sampled_from(same) | scalars,
        st.sampled_from(ordered) | texts | numbers,
        st.sampled_from(same) | scalars,
    )


def passes(given: Json, record: dict[str, Json]) -> bool:
    """Return whether a record passes a filter. The times of the record are Unix ms."""
    return all(_holds(name, condition, record) for name, condition in given.items())


def _holds(name: str, condition: Json, record: dict[str, Json]) -> bool:
    if name == "not":
        return not passes(condition, record)
    if name in ("and", "or"):
        return (all if name == "and" else any)(passes(one, record) for one in condition)
    value = _value(name, record)
    convert = _unix_ms if name.endswith("_at") else lambda wanted: wanted
    return all(
        _meets(
            value,
            operator,
            [*map(convert, wanted)] if isinstance(wanted, list) else convert(wanted),
        )
        for operator, wanted in condition.items()
    )


def _value(name: str, record: dict[str, Json]) -> Json:
    if not name.startswith("data"):
        return MISSING if record[name] is None else record[name]
    value: Json = record["data"] or MISSING
    for step in PATHS[name]:
        value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
    return value


def _meets(value: Json, operator: str, wanted: Json) -> bool:
    match operator:
        case "eq" | "ne":
            return equal(value, wanted) is (operator == "eq")
        case "in" | "nin":
            return any(equal(value, one) for one in wanted) is (operator == "in")
        case "exists":
            return (value is not MISSING) is wanted
        case "contains" if isinstance(value, list):
            return any(equal(one, wanted) for one in value)
        case "contains":
            return isinstance(value, str) and isinstance(wanted, str) and wanted in value
    alike = (is_number(value) and is_number(wanted)) or (
        isinstance(value, str) and isinstance(wanted, str)
    )
    return (
        alike
        and {
            "gt": lambda: value > wanted,
            "gte": lambda: value >= wanted,
            "lt": lambda: value < wanted,
            "lte": lambda: value <= wanted,
        }[operator]()
    )


def equal(value: Json, wanted: Json) -> bool:
    """Compare two JSON values by type and value. Null equals a missing value."""
    if wanted is None:
        return value is None or value is MISSING
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if is_number(wanted):
        return is_number(value) and value == wanted
    return isinstance(value, str) and value == wanted


def is_number(value: Json) -> bool:
    """Return whether the value is a JSON number. Booleans are not numbers in JSON."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unix_ms(wanted: Json) -> Json:
    if not isinstance(wanted, str):
        return wanted
    moment = datetime.fromisoformat(wanted if len(wanted) > 10 else f"{wanted}T00:00:00+00:00")
    micros = Fraction(
        int(moment.replace(microsecond=0).timestamp()) * 10**6 + moment.microsecond, 1000
    )
    return float(micros) if micros.denominator > 1 else int(micros)
