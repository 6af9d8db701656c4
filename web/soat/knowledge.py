"""/api/v1/knowledge/search: what memories know, as SOAT's document has it. There are no documents
here, so none are found."""

from typing import Any

from aiohttp import web

from memrelay.memory.operation import all_operations
from memrelay.memory.records.ids import uid_of
from memrelay.web.api.answers import json_response
from memrelay.web.api.operation_input import checked_input
from memrelay.web.auth.access import caller_of, needs
from memrelay.web.openapi.route_docs import described
from memrelay.web.server.errors import BadRequest, NotFound, Problem, TooLate, Unavailable
from memrelay.web.soat.calls import call_each, project_of, read_fields, seen_pipelines
from memrelay.web.soat.shapes import SoatKnowledge, SoatQuestion

routes = web.RouteTableDef()
LISTS = ("memory_ids", "memory_tags", "document_paths", "document_ids")
FIELDS = ("project_id", "query", "min_score", "limit", *LISTS)
NEEDED = (
    "At least one of query, memory_ids, memory_tags, document_paths, or document_ids is required"
)
LIMIT = 10


@routes.post("/api/v1/knowledge/search")
@described(
    {
        200: "{results, degraded}, best first",
        400: "nothing to look for, or a field is not as it should be",
    },
    gives={200: SoatKnowledge},
    accepts=SoatQuestion,
    body="{project_id?, query?, min_score?, limit?, memory_ids?, memory_tags?}",
)
@needs("search")
async def search(request: web.Request) -> web.Response:
    """Finds entries of memories by what is meant; by their words, and `degraded`, where nothing
    knows that."""
    given = {
        name: value
        for name, value in (await read_fields(request, FIELDS)).items()
        if value is not None
    }
    for name in LISTS:
        if isinstance(given.get(name), str):
            given[name] = [given[name]]
    if isinstance(given.get("query"), str) and not given["query"].strip():
        del given["query"]
    if not any(given.get(name) for name in ("query", *LISTS)):
        raise BadRequest(NEEDED)
    project = given.pop("project_id", "")
    wanted = {name: value for name, value in given.items() if not name.startswith("document")}
    checked_input(
        all_operations()["knowledge.search"], wanted
    )  # here, since it may be that no project is asked
    uids = [await project_of(request, project)] if project else await _concerned(request, given)
    if only_documents(given):
        uids = []
    return json_response(
        _together(uids, await call_each(request, "knowledge.search", uids, wanted), wanted)
    )


def only_documents(given: dict[str, Any]) -> bool:
    """Whether documents are looked for, and nothing in memories."""
    documents = any(given.get(name) for name in ("document_paths", "document_ids"))
    return documents and not given.get("memory_ids") and not given.get("memory_tags")


async def _concerned(request: web.Request, given: dict[str, Any]) -> list[str]:
    """The projects that the caller may see; where memories are named by id alone, theirs."""
    if (
        "memory_ids" not in given
        or given.get("memory_tags")
        or not isinstance(given["memory_ids"], list)
    ):
        return await seen_pipelines(request)
    uids = dict.fromkeys(uid_of("mem", one) for one in given["memory_ids"] if isinstance(one, str))
    return [uid for uid in uids if uid and caller_of(request).sees(uid)]


def _together(uids: list[str], found: list[Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """What all of them know, best first. A project that cannot answer now is told of; what was
    wrongly asked is raised."""
    results, reasons = [], []
    for uid, one in zip(uids, found, strict=True):
        if isinstance(one, Unavailable | TooLate):
            reasons.append(f"project {uid} does not answer now")
        elif isinstance(one, Problem) and not isinstance(one, NotFound):
            raise one
        elif not isinstance(one, Problem):
            results += one["results"]
            reasons += [one["reason"]] * one["degraded"]
    if wanted.get("query"):
        results.sort(key=lambda result: -result["score"])
    else:
        results.sort(key=lambda result: result["created_at"])
    told = {
        "results": [_told(one) for one in results[: wanted.get("limit", LIMIT)]],
        "degraded": bool(reasons),
    }
    return told | ({"reason": "; ".join(dict.fromkeys(reasons))} if reasons else {})


def _told(result: dict[str, Any]) -> dict[str, Any]:
    """A result in SOAT's shape, of this version and of later ones: scores are there where something
    was asked."""
    told = {"source_type": "memory"} | {
        name: value for name, value in result.items() if name not in ("score", "why")
    }
    if result["score"] is not None:
        told |= {
            "score": result["score"],
            "similarity_score": result["score"],
            "why": result["why"],
        }
    return told
