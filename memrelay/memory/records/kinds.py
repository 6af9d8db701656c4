"""Reserved kinds: records of these kinds are written only by the operations of their model."""

from memrelay.memory.errors import Refused

# Beginnings of reserved kinds.
RESERVED = ("store.", "memory.", "recipe.")
# An item in a shared store (memory/items). SQL names it literally, so that SQLite uses its index.
ITEM_KIND = "store.item"
# The memory of agents (memory/agents).
FACT_KIND, PROCEDURE_KIND = "memory.fact", "memory.procedure"
EPISODE_KIND, STEP_KIND = "memory.episode", "memory.step"
USER_KIND = "memory.user"
# An item of a LangGraph store.
LANGGRAPH_ITEM_KIND = "memory.item"
# Recipes and what they read (memory/recipes).
RECIPE_KIND, DOCUMENT_KIND, NODE_KIND = "recipe.definition", "recipe.document", "recipe.node"
INSTANCE_KIND, RULE_ENGINE_KIND = "recipe.instance", "recipe.rule_engine"
GRAPH_TEMPLATE_KIND, VIEW_TEMPLATE_KIND = "recipe.graph_template", "recipe.view_template"


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
        f"the kind {kind[:64]!r} is reserved: kinds that begin with `store.`, `memory.` or "
        "`recipe.` belong to other operations; use another kind"
    )
