"""procedures.list: lists procedures in pages, the newest or the most used first."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from memrelay.memory.agents.procedures import ProcedureView, scope_of, view_procedure
from memrelay.memory.agents.scopes import OptionalId
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import PROCEDURE_KIND
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.sqlite.store import Transaction

IS_ACTIVE = "json_extract(r.data, '$.is_active')"


@dataclass(frozen=True, slots=True)
class ListProcedures:
    """The procedures to list, and the page."""

    agent_id: OptionalId = ""
    """Only procedures of this agent."""
    active_only: bool = False
    """Whether to leave out retired procedures."""
    order: Literal["created_at", "uses"] = "created_at"
    """The newest first, or the most used first."""
    limit: Limit = 50
    """The maximum number of procedures. A page of long procedures may have fewer."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of procedures to skip."""


@dataclass(frozen=True, slots=True)
class ProcedurePage:
    """A page of procedures."""

    items: tuple[ProcedureView, ...]
    total: int
    """The number of procedures on all pages."""


@operation("procedures.list", access="read", mutates=False, home="memories", any_store=True)
def list_procedures(tx: Transaction, wanted: ListProcedures, context: Context) -> ProcedurePage:
    """List procedures in pages, the newest or the most used first.

    Raises ResultTooLarge: when a procedure does not fit into an answer.
    """
    clauses, values = ["r.scope = ?"] * bool(wanted.agent_id), list[str]()
    values += [scope_of(wanted.agent_id)] * bool(wanted.agent_id)
    clauses += [IS_ACTIVE] * wanted.active_only
    given = Given(" AND ".join(clauses), tuple(values), {}) if clauses else None
    conditions = Conditions(given=literal_kind(PROCEDURE_KIND, given))
    window = (wanted.limit, wanted.offset)
    found, total = take_ordered_page(tx, conditions, (wanted.order, "desc"), window, context)
    items = (view_procedure(*one, tx.tallies.find(one[0].guid)) for one in found)
    return ProcedurePage(tuple(items), total)
