"""Bundles for tests; their agents use the swarm `chat` unless the test names another."""

from itertools import count
from typing import Any

Json = dict[str, Any]
STORE = "instances/${pipeline_uid}/memories"
PATTERNS = {
    "write": r"^/write\s+(.*)",
    "read": r"^/read\b",
    "search": r"^/search\s+(.*)",
    "append": r"^/append\s+(.*)",
    "delete": r"^/delete\s+(\S+)",
}


def make_bundle(uid: str, *agents: Json, name: str = "test", **keys: Any) -> Json:
    """Return a bundle of these agents, or of the five memory commands."""
    return {
        "pipeline_name": name,
        "pipeline_uid": uid,
        "agents": list(agents or make_commands()),
        **keys,
    }


def make_commands(memory_id: str = STORE) -> list[Json]:
    """Return a relay and a memory block for each of the five commands."""
    relays = [make_relay(name, pattern, flags="s") for name, pattern in PATTERNS.items()]
    return relays + [make_memory(name, memory_id=memory_id) for name in PATTERNS]


def make_relay(
    name: str, pattern: str, *, senders: Any = "User", to: str = "chat", **args: Any
) -> Json:
    """Return the agent `dispatch_<name>`, which passes on the pattern's group."""
    return make_agent(
        f"dispatch_{name}", "regex_match", {"pattern": pattern} | args, senders=senders, to=to
    )


def make_memory(
    name: str, *, senders: Any = None, memory_id: str = STORE, alias: str = "", **args: Any
) -> Json:
    """Return the agent `memory_<name>`, which listens to its relay."""
    args = {"memory_id": memory_id} | args
    return make_agent(
        alias or f"memory_{name}", f"memory_{name}", args, senders=senders or f"dispatch_{name}"
    )


def make_agent(
    name: str,
    block: str,
    args: Json | None = None,
    *,
    senders: Any = "*",
    on: str = "chat",
    to: str = "chat",
    publishes: bool = True,
) -> Json:
    """Return an agent whose alias differs from the name that it publishes under."""
    listening = {"agent_rec_swarm": on, "agent_send_swarm": to, "agent_from": senders}
    calling = {
        "wf_diagram_webhook": block,
        "wf_publish_results": publishes,
        "wf_webhook_args": args or {},
    }
    return (
        {"agent_class": "wf_agent", "agent_alias": f"{name}_", "wf_agent_name": name}
        | listening
        | calling
    )


def make_uid() -> str:
    """Return a UID that no other test of this run has."""
    return f"pipeline{next(_numbers)}"


_numbers = count(1)
