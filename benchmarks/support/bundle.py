"""The bundle of the yardstick: five relays and five memory blocks on the swarm `chat`, and optional
extra relays."""

from typing import Any

COMMANDS = {
    "write": r"^/write\s+(.*)",
    "read": r"^/read\b\s*(.*)",
    "search": r"^/search\s+(.*)",
    "append": r"^/append\s+(.*)",
    "delete": r"^/delete\s+(\S+)",
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "write": {"kind": "memory"},
    "read": {"kind": "memory", "limit": 10, "order": "desc"},
}

# Policies that match none of the yardstick's messages.
RULES = (
    {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"},
    {"name": "no persons", "match": {"find": "personal"}, "action": "redact"},
    {"name": "short", "match": {"filter": {"kind": {"eq": "temp"}}}, "action": {"ttl_s": 60}},
    {"name": "strangers", "match": {"filter": {"source": {"in": ["a"]}}}, "action": "review"},
    {"name": "spam", "match": {"filter": {"tags": {"contains": "spam"}}}, "action": "drop"},
)


def make_full_bundle(uid: str) -> dict[str, Any]:
    """Return the bundle with kept inputs, receipts of all reads, and policies."""
    bundle = make_bundle(uid)
    for agent in bundle["agents"]:
        agent["receipts"] = agent["wf_diagram_webhook"] == "memory_search"
    store = {"memory_id": "instances/${pipeline_uid}/memories", "policies": list(RULES)}
    return bundle | {"inputs_days": 7, "stores": [store]}


def make_bundle(uid: str, more_relays: int = 0) -> dict[str, Any]:
    """Return the bundle of pipeline `uid`. Its `more_relays` extra relays match no message."""
    agents = []
    for name, pattern in COMMANDS.items():
        agents.append(
            _agent(f"dispatch_{name}", "regex_match", {"pattern": pattern}, senders="User")
        )
        arguments = {"memory_id": "instances/${pipeline_uid}/memories", **ARGUMENTS.get(name, {})}
        agents.append(
            _agent(f"memory_{name}", f"memory_{name}", arguments, senders=f"dispatch_{name}")
        )
    for number in range(more_relays):
        pattern = rf"^/other{number}\s+(.*)" if number % 2 else rf"(?i)\bother-{number}-(\d+)"
        agents.append(
            _agent(f"other_{number}", "regex_match", {"pattern": pattern}, senders="User")
        )
    return {
        "pipeline_name": "yardstick",
        "pipeline_desc": "The job of the yardstick.",
        "pipeline_uid": uid,
        "agents": agents,
        "display_order": [],
    }


def _agent(name: str, block: str, arguments: dict[str, Any], senders: str) -> dict[str, Any]:
    return {
        "agent_class": "wf_agent",
        "agent_alias": name,
        "agent_name": name,
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": senders,
        "wf_agent_name": name,
        "wf_diagram_webhook": block,
        "wf_publish_results": True,
        "wf_webhook_args": arguments,
    }
