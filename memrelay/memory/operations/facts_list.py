"""facts.list: lists facts in pages, the newest change first."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.fact_table import StoredFact, matching
from memrelay.memory.agents.facts import FACT_TYPES, FactView, Query, view_fact
from memrelay.memory.agents.scopes import SCOPES, OptionalId, check_name
from memrelay.memory.agents.users import current_id
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import FACT_KIND
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListFacts:
    """The facts to list, and the page."""

    scope: str = ""
    """Only facts of this scope: session, user, agent or global."""
    fact_type: str = ""
    """Only facts of this type."""
    agent_id: OptionalId = ""
    """Only facts of this agent."""
    user_id: OptionalId = ""
    """Only facts of this user."""
    session_id: OptionalId = ""
    """Only facts of this session."""
    query: Query = ""
    """Only facts that this query finds, as in facts.search. The order stays the same."""
    limit: Limit = 50
    """The maximum number of facts. A page of long facts may have fewer."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of facts to skip."""


@dataclass(frozen=True, slots=True)
class FactPage:
    """A page of facts."""

    items: tuple[FactView, ...]
    total: int
    """The number of facts on all pages."""


@operation("facts.list", access="read", mutates=False, home="memories", any_store=True)
def list_facts(tx: Transaction, wanted: ListFacts, context: Context) -> FactPage:
    """List facts in pages, the newest change first. Of equal times, the later arrival is first.

    Raises Refused: when the scope or the type is unknown.
    Raises ResultTooLarge: when a fact does not fit into an answer.
    Raises SearchTooLong: when the search exceeds its time limit.
    """
    wanted = replace(wanted, user_id=current_id(tx, wanted.user_id))
    conditions = Conditions(given=literal_kind(FACT_KIND, _filter(wanted)))
    window = (wanted.limit, wanted.offset)
    with tx.bounded_search():
        found, total = take_ordered_page(tx, conditions, ("updated_at", "desc"), window, context)
    items = (StoredFact(*one, tx.tallies.find(one[0].guid)) for one in found)
    return FactPage(tuple(map(view_fact, items)), total)


def _filter(wanted: ListFacts) -> Given | None:
    """Return the conditions that are set, None if none is. Raises Refused."""
    clauses, values = list[str](), list[str]()
    if wanted.scope:
        check_name("scope", wanted.scope, SCOPES)
        # A scope has an id after a colon, except `global`.
        clauses.append("(r.scope = ? OR (r.scope >= ? AND r.scope < ?))")
        values += [wanted.scope, f"{wanted.scope}:", f"{wanted.scope};"]
    if wanted.fact_type:
        check_name("fact_type", wanted.fact_type, FACT_TYPES)
        clauses.append("json_extract(r.data, '$.fact_type') = ?")
        values.append(wanted.fact_type)
    for name in ("agent", "user", "session"):
        if id_ := getattr(wanted, f"{name}_id"):
            clauses.append("r.scope = ?")
            values.append(f"{name}:{id_}")
    if wanted.query:
        clause, of_query = matching(wanted.query)
        clauses.append(clause)
        values += of_query
    return Given(" AND ".join(clauses), tuple(values), {}) if clauses else None
