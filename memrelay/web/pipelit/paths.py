"""Pipelit's paths: each list has two."""

from dataclasses import dataclass, field

WORKFLOWS = "/api/v1/workflows"
HISTORY = WORKFLOWS + "/{workflow}/chat/history"


@dataclass(frozen=True, slots=True)
class Section:
    """A list of Pipelit's memory.

    `noun` is that of its operations. `paths` are the documented path and that of Pipelit's code.
    `filters` maps the parameters of the list to their descriptions.
    """

    noun: str
    paths: tuple[str, str]
    filters: dict[str, str] = field(default_factory=dict)


FACTS = Section(
    "facts",
    ("/api/v1/facts", "/api/v1/memories/facts"),
    {
        "scope": "Only facts of this scope: session, user, agent or global.",
        "fact_type": "Only facts of this type.",
    },
)
EPISODES = Section(
    "episodes",
    ("/api/v1/episodes", "/api/v1/memories/episodes"),
    {"agent_id": "Only episodes of this agent."},
)
PROCEDURES = Section(
    "procedures",
    ("/api/v1/procedures", "/api/v1/memories/procedures"),
    {"agent_id": "Only procedures of this agent."},
)
USERS = Section("users", ("/api/v1/memory-users", "/api/v1/memories/users"))
CHECKPOINTS = Section(
    "checkpoints",
    ("/api/v1/checkpoints", "/api/v1/memories/checkpoints"),
    {"thread_id": "Only checkpoints of this thread."},
)
SECTIONS = (FACTS, EPISODES, PROCEDURES, USERS, CHECKPOINTS)
