"""Reserved kinds: records of these kinds are written only by the operations of their model."""

from memrelay.memory.engine.models import reserved_prefixes
from memrelay.memory.errors import Refused

# Generic reads leave these kinds out.
AGENT_MEMORY = "memory."


def is_agent_memory(kind: str) -> bool:
    """Return whether records of that kind are the memory of agents."""
    return kind.startswith(AGENT_MEMORY)


def refuse_reserved(kind: str | None) -> None:
    """Raise Refused if records of that kind are written only by other operations."""
    if kind and (fault := reserved_fault(kind)):
        raise Refused(fault)


def reserved_fault(kind: str) -> str:
    """Return why a new record may not have that kind, "" if it may."""
    prefixes = reserved_prefixes()
    if not kind.startswith(prefixes):
        return ""
    *first, last = (f"`{prefix}`" for prefix in prefixes)
    named = f"{', '.join(first)} or {last}" if first else last
    return (
        f"the kind {kind[:64]!r} is reserved: kinds that begin with {named} belong to other "
        "operations; use another kind"
    )
