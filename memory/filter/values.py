"""What a condition's value may be, by the sort of its field; times become numbers."""

from typing import Any

from memory.data import number_fault, text_fault
from memory.filter.fields import ORDERED, Sort
from memory.times import as_us

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
