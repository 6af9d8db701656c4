"""The scopes of recipes, and the variables that each of them provides."""

from collections.abc import Mapping

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
