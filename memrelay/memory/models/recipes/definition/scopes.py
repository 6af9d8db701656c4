"""The scopes of recipes, and the variables that each of them provides."""

from collections.abc import Mapping
from typing import Any

from memrelay.memory.models.recipes.faults import quoted, suggest

SCOPES: Mapping[str, tuple[str, ...]] = {
    "swarm": ("swarm_id", "swarm_name"),
    "agent": ("agent_id", "agent_name", "agent_type"),
    "project": ("project_id", "project_path"),
    "orchestrator": ("orchestrator_id",),
    "thread": ("thread_id",),
    "task": ("task_id", "task_type"),
    "user": ("user_id",),
    "org": ("org_id",),
}
SCOPE_OF: Mapping[str, str] = {name: scope for scope, names in SCOPES.items() for name in names}


def scope_fault(scope: Any, name: Any = None) -> str:
    """Return why a scope does not exist or does not have the variable, "" if it does."""
    if scope not in SCOPES:
        return f"unknown scope {quoted(scope)}{suggest(scope, SCOPES)}"
    if name is not None and name not in SCOPES[scope]:
        return f"scope {scope} has no variable {quoted(name)}{suggest(name, SCOPES[scope])}"
    return ""


def belongs_to_scope(name: str) -> str:
    """Return the rule for a scope variable that is given as an additional one."""
    scope = SCOPE_OF[name]
    return f"{name} belongs to the scope {scope}; send scope_variables.{scope}.{name}"
