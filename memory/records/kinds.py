"""Reserved kinds: records of these kinds are written only by the operations of their model."""

from memrelay.memory.errors import Refused

# Beginnings of reserved kinds.
RESERVED = ("store.", "memory.")
# An item in a shared store (memory/items). SQL names it literally, so that SQLite uses its index.
ITEM_KIND = "store.item"
# The memory of agents (memory/agents).
FACT_KIND, PROCEDURE_KIND = "memory.fact", "memory.procedure"
EPISODE_KIND, STEP_KIND = "memory.episode", "memory.step"
USER_KIND = "memory.user"
# An item of a LangGraph store.
LANGGRAPH_ITEM_KIND = "memory.item"


# Generic reads leave these kinds out.
AGENT_MEMORY = "memory."


def is_agent_memory(kind: str) -> bool:
    """Return whether records of that kind are the memory of agents."""
    return kind.startswith(AGENT_MEMORY)


def refuse_reserved(kind: str | None) -> None:
    """Raise Refused if records of that kind are written only by other operations."""
    if kind is not None and (rule := reserved_fault(kind)):
        raise Refused(rule)


def reserved_fault(kind: str) -> str:
    """Return why a new record may not have that kind, "" if it may."""
    if not kind.startswith(RESERVED):
        return ""
    return (
        f"the kind {kind[:64]!r} is reserved: kinds that begin with `store.` or `memory.` belong "
        "to other operations; use another kind"
    )
