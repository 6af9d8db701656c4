"""How names are written in a bundle, as patterns for its JSON Schema. There `${pipeline_uid}` is not yet filled in."""

from typing import Any

from pydantic.config import JsonDict

from bus.wire import PUBLIC

_UID = r"\$\{pipeline_uid\}"
_LETTER = rf"({_UID}|[^\x00-\x1f\x7f{{}}])"  # of bus.wire.SWARM
_PART = rf"({_UID}|[A-Za-z0-9_-])({_UID}|[A-Za-z0-9._-]){{0,99}}"  # of memory.memory_id.SEGMENT
_REFERENCE = rf"env:({_UID}|[A-Za-z_])({_UID}|[A-Za-z0-9_])*|file:[^\x00-\x1f]+"  # of pipelines.agents.SECRET

NAME: JsonDict = {"pattern": f"^{_LETTER}{{1,128}}$"}
NAME_OR_NONE: JsonDict = {"pattern": f"^{_LETTER}{{0,128}}$"}
UID: JsonDict = {"pattern": rf"^({_UID}|[A-Za-z0-9_-]{{1,64}})?$", "not": {"const": PUBLIC}}
MEMORY_ID: JsonDict = {"pattern": f"^({_PART}(/{_PART}){{1,7}})?$"}  # 2 to 8 parts
KEPT_AT: JsonDict = {"pattern": f"^({_REFERENCE})?$"}
FLAG_TEXT = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"

_NOT = [False, "false", "False", "FALSE"]

# A wf_agent that calls names its block.
CALLS: dict[str, Any] = {
    "if": {
        "properties": {"agent_class": {"const": "wf_agent"}},
        "required": ["agent_class"],
        "not": {"properties": {"wf_call_webhook": {"enum": _NOT}}, "required": ["wf_call_webhook"]},
    },
    "then": {"properties": {"wf_diagram_webhook": {"minLength": 1}}, "required": ["wf_diagram_webhook"]},
}
