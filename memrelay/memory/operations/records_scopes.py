"""records.scopes: lists the scopes of the items of a LangGraph store."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.items import SEPARATOR, Pattern
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, GivenName
from memrelay.memory.sqlite.store import Transaction

Labels = Annotated[tuple[GivenName, ...], Field(max_length=MAX_NAME_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class ListScopes:
    """The scopes to list, and the page."""

    prefix: Labels = ()
    """Only scopes that begin with these labels. The label `*` matches any label."""
    suffix: Labels = ()
    """Only scopes that end with these labels. The label `*` matches any label."""
    max_depth: Annotated[int, Field(ge=1, le=MAX_NAME_CHARACTERS)] | None = None
    """Cut longer scopes to this number of labels, and return each result once."""
    limit: Limit = 100
    """The maximum number of scopes."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of scopes to skip."""


@dataclass(frozen=True, slots=True)
class Scopes:
    """A page of scopes."""

    scopes: tuple[str, ...]
    """The scopes, each with its labels joined by dots, in the order of their labels."""
    total: int
    """The number of scopes on all pages."""


@operation("records.scopes", access="read", mutates=False, home="langgraph", any_store=True)
def list_scopes(tx: Transaction, wanted: ListScopes, context: Context) -> Scopes:
    """List the scopes in which a LangGraph store has items (records of kind memory.item).

    Raises SearchTooLong: when the search exceeds its time limit.
    """
    pattern = Pattern(wanted.prefix, wanted.suffix)
    with tx.bounded_search():
        found = {labels[: wanted.max_depth] for labels in tx.langgraph_items.scopes(pattern)}
    page = sorted(found)[wanted.offset : wanted.offset + wanted.limit]
    return Scopes(tuple(map(SEPARATOR.join, page)), len(found))
