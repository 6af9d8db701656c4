"""The error dialect of Robutler's paths: `{"error": NAME, "detail": TEXT}`.

The texts come from the operations. Here they get the names that the paths use.
"""

import re
from http import HTTPStatus

from memrelay.web.models.routes import CompatibleApi
from memrelay.web.server.error_dialects import ErrorDialect, Json, describe_faults
from memrelay.web.server.errors import KeyReused, SealedValueChanged

SCHEMA: Json = {
    "type": "object",
    "required": ["error", "detail"],
    "additionalProperties": False,
    "properties": {
        "error": {"type": "string", "description": "The name of the error, for example Denied."},
        "detail": {"type": "string", "description": "The problem and the fix."},
    },
}
NAMES = {
    400: "Invalid",
    403: "Denied",
    408: "Timeout",
    413: "TooLarge",
    429: "TooMany",
    500: "Internal",
    503: "Unavailable",
    504: "Timeout",
}
# Problems that Robutler's clients expect under another status: invalid content, another version.
STATUSES = {422: 400, 412: 409}
# Titles of problems that keep their status.
UNCHANGED = (KeyReused.title, SealedValueChanged.title)
# Fields of the operations and their names on these paths.
FIELDS = {
    "agent": "agentId",
    "chat": "chatId",
    "user": "userId",
    "ttl_s": "ttl",
    "in_context": "inContext",
    "if_absent": "ifAbsent",
    "if_version": "If-Match",
    "query": "q",
}
# Words in texts that only Memrelay's own API has.
WORDS = {name: field for name, field in FIELDS.items() if "_" in name} | {
    "items.list": "GET /api/storage/memory/",
    "items.put": "PUT",
    "grants.set": "POST /api/storage/memory/?action=share",
}
# A quoted text, such as a key, stays as it is. An escaped quote begins none: if each did, the
# searches for their ends would take quadratic time.
QUOTED_OR_WORD = re.compile(
    r"(?<![\w\\])(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")(?!\w)|"
    + "|".join(rf"\b{re.escape(word)}\b" for word in WORDS)
)


def to_robutler_error(problem: Json) -> tuple[int, Json]:
    """Return (status, body) of a problem."""
    given = int(problem["status"])
    status = given if problem["title"] in UNCHANGED else STATUSES.get(given, given)
    name = NAMES.get(status) or HTTPStatus(status).phrase.title().replace(" ", "")
    return status, {"error": name, "detail": _describe(problem)}


def _describe(problem: Json) -> str:
    """Return the text of a problem with the names of these paths."""
    faults = [_translate_fault(fault) for fault in problem.get("faults", ())]
    return describe_faults(problem | {"detail": _translate(problem["detail"]), "faults": faults})


def _translate_fault(fault: dict[str, str]) -> dict[str, str]:
    _, field, *rest = fault["pointer"].split("/") if fault["pointer"] else ("", "")
    pointer = "/".join(("", FIELDS.get(field, field), *rest))
    texts = {name: _translate(fault[name]) for name in ("rule", "suggestion")}
    return fault | texts | {"pointer": pointer}


def _translate(text: str) -> str:
    return QUOTED_OR_WORD.sub(lambda found: WORDS.get(found[0], found[0]), text)


ROBUTLER = ErrorDialect(
    "robutler",
    "RobutlerError",
    SCHEMA,
    to_robutler_error,
    prefixes=("/api/storage/memory", "/api/kv", "/api/tools/memory"),
)
IDENTITY_QUERY = {
    "agentId": "The calling agent. Its id is also the id of its own store. A key must name it.",
    "chatId": "The chat for which the agent works.",
    "userId": "The user for whom the agent works.",
}
READ_ERRORS = {
    404: "The pipeline or key does not exist.",
    422: "The sealed value of the entry was changed.",
    503: "No worker serves the pipeline.",
    504: "No answer in time.",
}
WRITE_ERRORS = READ_ERRORS | {422: "The Idempotency-Key belongs to another call."}
ROBUTLER_API = CompatibleApi(
    ROBUTLER, READ_ERRORS, WRITE_ERRORS, query=IDENTITY_QUERY, is_for_agents=True
)
