"""Small valid bundles; a test changes one thing."""

from typing import Any

from memrelay.pipelines.check import check
from memrelay.pipelines.report import Fault

Json = dict[str, Any]
UID = "a3d8f1b2"


def make_bundle(*agents: Json, **keys: Any) -> Json:
    return {"pipeline_name": "tea", "agents": list(agents or (make_chat(),)), **keys}


def make_chat(**keys: Any) -> Json:
    talk = {"agent_name": "User", "agent_rec_swarm": "chat", "agent_send_swarm": "chat"}
    return {"agent_class": "chat_agent", "agent_alias": "user"} | talk | keys


def make_relay(**keys: Any) -> Json:
    args = {"pattern": r"^/write\s+(.*)"}
    return make_block(
        "regex_match", args, agent_alias="relay", wf_agent_name="dispatch_write", **keys
    )


def make_memory(**keys: Any) -> Json:
    args = {"memory_id": "instances/${pipeline_uid}/memories"}
    return make_block("memory_write", keys.pop("wf_webhook_args", args), **keys)


def make_block(block: str, args: Any = "", **keys: Any) -> Json:
    wiring = {
        "agent_alias": block,
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "wf_agent_name": block,
    }
    call = {"wf_diagram_webhook": block, "wf_publish_results": True, "wf_webhook_args": args}
    return {"agent_class": "wf_agent"} | wiring | call | keys


def faults_of(*agents: Json, **keys: Any) -> list[str]:
    """Return the errors as lines. The bundle has the UID `UID`."""
    return lines(check(make_bundle(*agents, **keys), uid=UID).faults)


def warnings_of(*agents: Json, **keys: Any) -> list[str]:
    """Return the warnings of a bundle without errors, as lines."""
    checked = check(make_bundle(*agents, **keys), uid=UID)
    assert lines(checked.faults) == []
    return lines(checked.warnings)


def lines(faults: tuple[Fault, ...]) -> list[str]:
    return [fault.as_line() for fault in faults]
