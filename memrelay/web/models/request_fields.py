"""Fields of a request: which field of an operation's input each one sets.

A field is named by a pointer without its first slash. `from/instance` is a member of an object,
`events/0/payload` a member of the first item in a list, and `events/*/payload` one of each item.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, get_type_hints

from memrelay.pipelines.report import did_you_mean

Json = dict[str, Any]
# The input of an operation by pointer, and the spellings of each in the request, documented first.
Fields = Mapping[str, tuple[str, ...]]
EACH = "*"
ABSENT = object()


@dataclass(slots=True)
class ParsedInput:
    """The input of an operation, read from a request.

    `origins` maps a pointer into the input to the pointer into the request.
    """

    values: Json = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    faults: list[Json] = field(default_factory=list)

    def add_fault(self, path: str, code: str, message: str) -> None:
        """Record a fault of the request."""
        self.faults.append({"pointer": path, "rule": message, "suggestion": "", "code": code})

    def locate(self, pointer: str) -> str:
        """Return the pointer into the request for a pointer into the input."""
        head, tail = pointer, ""
        while head and head not in self.origins:
            head, _, last = head.rpartition("/")
            tail = f"/{last}{tail}"
        return self.origins.get(head, head) + tail


@dataclass(frozen=True, slots=True)
class Body:
    """A request body.

    `fields` are its fields, or `whole` is the field of the operation that takes the body itself.
    A body with the field `batch_key` has `batch` as its fields instead. `read_only` are further
    fields of the object in the answer: clients may send an object back as they read it.
    """

    fields: Fields = field(default_factory=dict)
    whole: str = ""
    batch_key: str = ""
    batch: Fields = field(default_factory=dict)
    example: str = ""
    read_only: tuple[str, ...] = ()

    def accept(self, shape: Any, *names: str) -> "Body":
        """Return the body with the fields of a shape as read-only ones, or only `names` of it."""
        known = {one.partition("/")[0] for spellings in self.fields.values() for one in spellings}
        wanted = names or tuple(get_type_hints(shape))
        return replace(self, read_only=tuple(one for one in wanted if one not in known))

    def without_read_only(self, value: Json) -> Json:
        """Return the JSON of a body without its read-only fields."""
        items = value.get(self.batch_key)
        if self.batch_key and isinstance(items, list):
            stripped = [self._strip(one) if isinstance(one, dict) else one for one in items]
            return value | {self.batch_key: stripped}
        return self._strip(value)

    def _strip(self, value: Json) -> Json:
        return {name: one for name, one in value.items() if name not in self.read_only}


def spell(**spellings: str | tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return fields of which each has one or several spellings."""
    return {name: (one,) if isinstance(one, str) else tuple(one) for name, one in spellings.items()}


def same(*names: str) -> dict[str, tuple[str, ...]]:
    """Return fields with the names of the operation."""
    return {name: (name,) for name in names}


def within(name: str, of_request: str, fields: Fields) -> dict[str, tuple[str, ...]]:
    """Return fields one level deeper: in `name` of the input, in `of_request` of the request.

    An empty `of_request` is the request itself.
    """
    prefix = f"{of_request}/" if of_request else ""
    return {
        f"{name}/{inner}": tuple(prefix + one for one in spellings)
        for inner, spellings in fields.items()
    }


def read_fields(fields: Fields, body: Json, parsed: ParsedInput) -> None:
    """Add the fields of a body to an input, and its unknown and contradictory fields as faults."""
    every = dict(_expand(fields, body, parsed))
    known = _nest(one for spellings in every.values() for one in spellings)
    _report_unknown(body, "", known, parsed)
    for name, spellings in every.items():
        found = [one for one in spellings if look_up(body, one) is not ABSENT]
        values = [look_up(body, one) for one in found]
        parsed.origins[f"/{name}"] = f"/{(found or spellings)[0]}"
        if found:
            set_at(parsed.values, name, values[0])
        for other, value in zip(found[1:], values[1:], strict=True):
            if value != values[0]:
                parsed.add_fault(
                    f"/{other}",
                    "conflicting_keys",
                    f"{other} and {found[0]} are spellings of one field and differ; omit one",
                )


def look_up(value: Any, pointer: str) -> Any:
    """Return the value at a pointer, or ABSENT."""
    for part in pointer.split("/"):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ABSENT
    return value


def set_at(value: Any, pointer: str, new: Any) -> None:
    """Set the value at a pointer, and create the objects and lists on the way."""
    path = pointer.split("/")
    for head, following in pairwise(path):
        empty: Any = [] if following.isdecimal() else {}
        if isinstance(value, dict):
            value = value.setdefault(head, empty)
        elif int(head) == len(value):
            value.append(empty)
            value = empty
        else:
            value = value[int(head)]
    if isinstance(value, list):
        value.append(new)
    else:
        value[path[-1]] = new


def _expand(
    fields: Fields, body: Json, parsed: ParsedInput
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each field of the items in lists. A value that is no list of objects stays whole."""
    for name, spellings in fields.items():
        target, _, member = name.partition(f"/{EACH}/")
        source = spellings[0].partition(f"/{EACH}/")[0]
        items = look_up(body, source)
        if not member:
            yield name, spellings
        elif not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
            yield target, (source,)
        else:
            parsed.values.setdefault(target, [{} for _ in items])
            parsed.origins[f"/{target}"] = f"/{source}"
            for at in range(len(items)):
                found = tuple(one.replace(EACH, str(at), 1) for one in spellings)
                yield f"{target}/{at}/{member}", found


def _report_unknown(value: Any, pointer: str, known: Json, parsed: ParsedInput) -> None:
    """Report the members of an object that `known` lacks, and another value than an object.

    `known` maps names to the known names within. Without any, each value fits.
    """
    if isinstance(value, list):
        members = {str(at): one for at, one in enumerate(value)}
    elif isinstance(value, dict):
        members = value
    else:
        parsed.add_fault(pointer, "bad_type", f"{pointer[1:]} must be a JSON object")
        return
    for name, member in members.items():
        if name not in known:
            _add_unknown(f"{pointer}/{name}", name, known, parsed)
        elif known[name]:
            _report_unknown(member, f"{pointer}/{name}", known[name], parsed)


def _nest(pointers: Iterable[str]) -> Json:
    """Return the names in pointers as nested objects."""
    tree: Json = {}
    for pointer in pointers:
        inner = tree
        for part in pointer.split("/"):
            inner = inner.setdefault(part, {})
    return tree


def _add_unknown(path: str, name: str, known: Mapping[str, object], parsed: ParsedInput) -> None:
    closest = did_you_mean(name, known)
    hint = f" ({closest})" if closest else f"; known are {', '.join(sorted(known))}"
    parsed.add_fault(path, "unknown_field", f"unknown field {name[:50]!r}{hint}")
