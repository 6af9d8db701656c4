"""/api/v1/knowledge/search: search in named memories with SOAT's path and shapes.

Memrelay stores no documents, so a search in documents finds nothing.
"""

from typing import Any

from aiohttp import web

from memrelay.memory.operations import all_operations
from memrelay.memory.records.ids import uid_of
from memrelay.web.api.answers import json_response
from memrelay.web.api.operations import validate_input
from memrelay.web.auth.access import get_caller
from memrelay.web.models.soat.calls import Json, call_each, find_project, list_projects, read_fields
from memrelay.web.models.soat.errors import SOAT_API
from memrelay.web.models.soat.shapes import SoatKnowledge, SoatQuestion
from memrelay.web.server.errors import BadRequest, GatewayTimeout, NotFound, Problem, Unavailable

routes = web.RouteTableDef()
DOCUMENT_FIELDS = ("document_paths", "document_ids")
LIST_FIELDS = ("memory_ids", "memory_tags", *DOCUMENT_FIELDS)
FIELDS = ("project_id", "query", "min_score", "limit", *LIST_FIELDS)
NOTHING_TO_FIND = (
    "At least one of query, memory_ids, memory_tags, document_paths, or document_ids is required"
)
DEFAULT_LIMIT = 10


@SOAT_API.serve(
    routes,
    "POST",
    "/api/v1/knowledge/search",
    "knowledge.search",
    {
        200: "{results, degraded}, best first.",
        400: "The request has no criterion, or a field is invalid.",
    },
    schemas={200: SoatKnowledge},
    body_schema=SoatQuestion,
    body="{project_id?, query?, min_score?, limit?, memory_ids?, memory_tags?}",
    errors={},
)
async def search(request: web.Request) -> web.Response:
    """Find entries of memories by meaning.

    Without an embedder, this searches by words, and `degraded` is true.
    """
    given = await _read_question(request)
    project = given.pop("project_id", "")
    criteria = {name: value for name, value in given.items() if not name.startswith("document")}
    # Validated here as well, because the search may involve no project.
    validate_input(all_operations()["knowledge.search"], criteria)
    if project:
        uids = [await find_project(request, project)]
    else:
        uids = await _find_projects(request, given)
    if wants_only_documents(given):
        uids = []
    answers = await call_each(request, "knowledge.search", uids, criteria)
    return json_response(_merge(uids, answers, criteria))


async def _read_question(request: web.Request) -> Json:
    """Return the given fields. Raises BadRequest if there is no criterion."""
    fields = await read_fields(request, FIELDS)
    given = {name: value for name, value in fields.items() if value is not None}
    for name in LIST_FIELDS:
        if isinstance(given.get(name), str):
            given[name] = [given[name]]
    for name in DOCUMENT_FIELDS:
        value = given.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise BadRequest(f"{name} must be a list of strings")
    if isinstance(given.get("query"), str) and not given["query"].strip():
        del given["query"]
    if not any(given.get(name) for name in ("query", *LIST_FIELDS)):
        raise BadRequest(NOTHING_TO_FIND)
    return given


def wants_only_documents(given: Json) -> bool:
    """Return whether a search names documents and no memories."""
    documents = any(given.get(name) for name in DOCUMENT_FIELDS)
    return documents and not given.get("memory_ids") and not given.get("memory_tags")


async def _find_projects(request: web.Request, given: Json) -> list[str]:
    """Return the projects of the named memories, otherwise all projects of the caller."""
    memory_ids = given.get("memory_ids")
    if given.get("memory_tags") or not isinstance(memory_ids, list):
        return await list_projects(request)
    uids = dict.fromkeys(uid_of("mem", one) for one in memory_ids if isinstance(one, str))
    return [uid for uid in uids if uid and get_caller(request).sees(uid)]


def _merge(uids: list[str], answers: list[Any], criteria: Json) -> Json:
    """Merge the results of several projects, best first.

    An unavailable project is named in `reason`. Raises every other Problem except NotFound.
    """
    results, reasons = [], []
    for uid, answer in zip(uids, answers, strict=True):
        if isinstance(answer, Unavailable | GatewayTimeout):
            reasons.append(f"project {uid} is unavailable")
        elif isinstance(answer, Problem) and not isinstance(answer, NotFound):
            raise answer
        elif not isinstance(answer, Problem):
            results += answer["results"]
            reasons += [answer["reason"]] * answer["degraded"]
    if criteria.get("query"):
        results.sort(key=lambda result: -result["score"])
    else:
        results.sort(key=lambda result: result["created_at"])
    limit = criteria.get("limit", DEFAULT_LIMIT)
    body = {"results": [_to_result(one) for one in results[:limit]], "degraded": bool(reasons)}
    return body | ({"reason": "; ".join(dict.fromkeys(reasons))} if reasons else {})


def _to_result(result: Json) -> Json:
    """Return a result in SOAT's shape. Scores are present only if there was a query."""
    fields = {name: value for name, value in result.items() if name not in ("score", "why")}
    score = result["score"]
    scores = {} if score is None else {"score": score, "similarity_score": score}
    why = {} if score is None else {"why": result["why"]}
    return {"source_type": "memory"} | fields | scores | why
