"""A filter that was read: a tree of conditions. Each of them is true of a record or false, and
never anything between."""

from dataclasses import dataclass

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
