"""How names are written in a bundle, as patterns for its JSON Schema. There `${pipeline_uid}` is
not yet filled in."""

import re
from typing import Any

from pydantic.config import JsonDict

from bus.wire import PUBLIC, SWARM, UID
from pipelines.substitution import TOKEN

_TOKEN = re.escape(TOKEN)
_ENV, _FILE = r"env:[A-Za-z_][A-Za-z0-9_]*", r"file:[^\x00-\x1f]+"
SECRET = re.compile(f"{_ENV}|{_FILE}")  # where a secret is kept


def _unfilled(pattern: str) -> str:
    """The pattern with `${pipeline_uid}` also taken wherever it takes a character."""
    return re.sub(r"\[[^]]+\]", lambda characters: f"({_TOKEN}|{characters[0]})", pattern)


_NAME = _unfilled(SWARM.pattern)
_PART = _unfilled(
    r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
)  # as memory.memory_id has it, in a room that this one does not know

NAME: JsonDict = {"pattern": f"^{_NAME}$"}
NAME_OR_NONE: JsonDict = {"pattern": f"^({_NAME})?$"}
PIPELINE_UID: JsonDict = {"pattern": f"^({_TOKEN}|{UID.pattern})?$", "not": {"const": PUBLIC}}
MEMORY_ID: JsonDict = {"pattern": f"^({_PART}(/{_PART}){{1,7}})?$"}  # 2 to 8 parts
KEPT_AT: JsonDict = {"pattern": f"^({_unfilled(_ENV)}|{_FILE})?$"}
FLAG_TEXT = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"

_NOT = [False, "false", "False", "FALSE"]

# A wf_agent that calls names its block.
CALLS: dict[str, Any] = {
    "if": {
        "properties": {"agent_class": {"const": "wf_agent"}},
        "required": ["agent_class"],
        "not": {"properties": {"wf_call_webhook": {"enum": _NOT}}, "required": ["wf_call_webhook"]},
    },
    "then": {
        "properties": {"wf_diagram_webhook": {"minLength": 1}},
        "required": ["wf_diagram_webhook"],
    },
}
