"""Error dialects, one table per dialect, and the pipeline of a path without a uid."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp import ClientSession, web

from memrelay.web.auth.access import requires
from memrelay.web.models.routes import find_pipeline
from memrelay.web.server.error_dialects import ErrorDialect, error_dialect
from memrelay.web.services import SERVICES
from tests.support.bundles import make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.routes import app_for
from tests.support.run_worker import deploy
from tests.support.web_system import WebSystem

LONG = b'{"value": "' + b"x" * (1 << 20) + b'"}'
AGENT = "agentId=a1"


class Keyed(NamedTuple):
    """A server with two pipelines, a key for each kind of request, and no other access."""

    web_system: WebSystem
    uids: tuple[str, str]
    keys: dict[str, ApiKey]

    def ask(self, method: str, path: str, body: Any = b"", key: str = "first") -> Answer:
        headers = self.keys[key].headers if key else {}
        return ask(self.web_system.url, method, path, body, headers)


@pytest.fixture(scope="module")
def keyed() -> Iterator[Keyed]:
    with WebSystem() as web_system:
        first, second, root = web_system.deploy(), web_system.deploy(), web_system.system.root
        keys = {
            "first": make_key(root, pipelines=(first,)),
            "all": make_key(root),
            "deploy": make_key(root, "deploy", pipelines=(first,)),
        }
        await_closed(web_system)
        yield Keyed(web_system, (first, second), keys)


def is_soat(body: dict[str, Any]) -> bool:
    return body.keys() == {"error", "detail"} and isinstance(body["error"], str)


def is_later_soat(body: dict[str, Any]) -> bool:
    return body.keys() == {"error"} and set(body["error"]) == {"code", "message", "meta"}


SOAT = {
    400: ("POST", "/api/v1/memories", {}, "first"),
    401: ("GET", "/api/v1/memories", b"", ""),
    403: ("GET", "/api/v1/memories", b"", "deploy"),
    404: ("GET", "/api/v1/memories/none", b"", "first"),
    405: ("PATCH", "/api/v1/memories", b"", "first"),
    413: ("POST", "/api/v1/memories", LONG, "first"),
}
LATER_SOAT = {
    400: ("POST", "/api/v1/memory-entries", {}, "first"),
    401: ("POST", "/api/v1/memory-entries", {}, ""),
    403: ("POST", "/api/v1/memory-entries", {}, "deploy"),
    404: ("GET", "/api/v1/memory-entries/none", b"", "first"),
    405: ("PATCH", "/api/v1/memory-entries", b"", "first"),
    413: ("POST", "/api/v1/memory-entries", LONG, "first"),
}
ROBUTLER = {
    400: ("PUT", f"/api/storage/memory/k?{AGENT}", {}, "first"),
    401: ("GET", f"/api/storage/memory/k?{AGENT}", b"", ""),
    403: ("GET", f"/api/storage/memory/k?{AGENT}", b"", "deploy"),
    404: ("GET", f"/api/storage/memory/none?{AGENT}", b"", "first"),
    405: ("PATCH", "/api/storage/memory/k", b"", "first"),
    413: ("PUT", f"/api/storage/memory/k?{AGENT}", {"value": "x" * 262_145}, "first"),
}
ROBUTLER_NAMES = {
    400: "Invalid",
    401: "Unauthorized",
    403: "Denied",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "TooLarge",
}

HISTORY = "/api/v1/workflows/{uid}/chat/history"
PIPELIT = {
    400: ("GET", f"{HISTORY}?before=noon", b"", "first"),
    401: ("GET", "/api/v1/facts/", b"", ""),
    403: ("GET", "/api/v1/facts/", b"", "deploy"),
    404: ("GET", "/api/v1/workflows/none/chat/history", b"", "first"),
    405: ("PATCH", "/api/v1/facts/", b"", "first"),
    413: ("POST", "/api/v1/facts/batch-delete/", LONG, "first"),
    422: ("POST", "/api/v1/facts/batch-delete/", {}, "first"),
}
PIPELIT_TEXTS = {
    400: "Invalid 'before' datetime format; use ISO 8601, such as 2026-11-22T05:00:00Z",
    401: "Invalid or missing API key.",
    403: 'Admin access required. This needs the scope "read". The key has deploy',
    404: "Workflow not found.",
    405: "the Allow header lists the methods of this path",
    422: "ids is missing",
}

TYPES = "/persistent-memory/types"
# Requests of each section, and (path, code) of the faults that they answer.
CODEBOLT = (
    (400, "GET", f"{TYPES}?page=2", b"", "first", []),
    (400, "POST", TYPES, b"{", "first", []),
    (401, "GET", TYPES, b"", "", []),
    (403, "GET", TYPES, b"", "deploy", []),
    (404, "GET", f"{TYPES}/none", b"", "first", []),
    (405, "PATCH", TYPES, b"", "first", []),
    (413, "POST", TYPES, LONG, "first", []),
    (422, "POST", TYPES, {"id": "x"}, "first", [("/label", "required")]),
    (422, "POST", TYPES, b"[]", "first", []),
    (400, "GET", "/kvstore/instances?page=2", b"", "first", []),
    (400, "POST", "/kvstore/query", b"{", "first", []),
    (401, "GET", "/kvstore/instances", b"", "", []),
    (403, "POST", "/kvstore/kv", {}, "deploy", []),
    (404, "GET", "/kvstore/kv/none/n/k", b"", "first", []),
    (404, "POST", "/kvstore/query", {"instance": "none", "namespace": "n"}, "first", []),
    (405, "PATCH", "/kvstore/kv", b"", "first", []),
    (
        422,
        "POST",
        "/kvstore/kv",
        {"instanceId": "i", "nmespace": "n", "key": 1},
        "first",
        [
            ("/key", "bad_param"),
            ("/namespace", "required"),
            ("/nmespace", "unknown_field"),
            ("/value", "required"),
        ],
    ),
    (400, "GET", "/eventlog/instances?page=2", b"", "first", []),
    (401, "POST", "/eventlog/events", {}, "", []),
    (403, "POST", "/eventlog/events", {}, "deploy", []),
    (404, "POST", "/eventlog/query", {"from": {"instance": "none"}}, "first", []),
    (422, "POST", "/eventlog/query", {"from": {}}, "first", [("/from/instance", "required")]),
    (400, "GET", "/kg/views?page=2", b"", "first", []),
    (401, "GET", "/kg/views", b"", "", []),
    (403, "GET", "/kg/views", b"", "deploy", []),
    (404, "GET", "/kg/views/none/execute", b"", "first", []),
    (404, "GET", "/kg/instances/none/records", b"", "first", []),
    (405, "PATCH", "/kg/views", b"", "first", []),
    (422, "POST", "/kg/instances", {}, "first", [("/name", "required")]),
    (422, "GET", "/kg/instances/g/subgraph?limit=x", b"", "first", [("/limit", "bad_param")]),
    (400, "GET", "/context-rule-engine?page=2", b"", "first", []),
    (401, "POST", "/context-assembly/assemble", {}, "", []),
    (403, "POST", "/context-assembly/assemble", {}, "deploy", []),
    (404, "GET", "/context-rule-engine/none", b"", "first", []),
    (404, "GET", "/context-assembly/none", b"", "first", []),
    (422, "POST", "/context-assembly/assemble", {}, "first", [("/scope_variables", "required")]),
    (422, "POST", "/context-rule-engine", {}, "first", [("/name", "required")]),
)


@pytest.mark.parametrize(
    ("table", "fits"), [(SOAT, is_soat), (LATER_SOAT, is_later_soat)], ids=["soat", "later soat"]
)
def test_the_errors_of_soats_paths(keyed: Keyed, table: Any, fits: Any) -> None:
    for status, request in table.items():
        answer = keyed.ask(*request)
        assert answer.status == status and fits(answer.json), (request[:2], answer)


def test_the_errors_of_robutlers_paths(keyed: Keyed) -> None:
    for prefix in ("", f"/p/{keyed.uids[0]}"):
        for status, (method, path, body, key) in ROBUTLER.items():
            answer = keyed.ask(method, prefix + path, body, key)
            assert (answer.status, answer.json["error"]) == (status, ROBUTLER_NAMES[status])
            assert answer.json.keys() == {"error", "detail"}, answer


def test_the_errors_of_pipelits_paths(keyed: Keyed) -> None:
    uid = keyed.uids[0]
    for prefix in ("", f"/p/{uid}"):
        for status, (method, path, body, key) in PIPELIT.items():
            answer = keyed.ask(method, prefix + path.format(uid=uid), body, key)
            assert (answer.status, list(answer.json)) == (status, ["detail"]), answer
            assert answer.json["detail"] == PIPELIT_TEXTS.get(status, answer.json["detail"])
            assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("prefix", ["", "/p/{uid}"])
def test_the_errors_of_codebolts_paths(keyed: Keyed, prefix: str) -> None:
    for status, method, path, given, key, faults in CODEBOLT:
        answer = keyed.ask(method, prefix.format(uid=keyed.uids[0]) + path, given, key)
        assert (answer.status, list(answer.json)) == (status, ["success", "error", "errors"]), (
            answer
        )
        assert answer.json["success"] is False and answer.json["error"], answer
        found = [(fault["path"], fault["code"]) for fault in answer.json["errors"]]
        assert found == faults, (method, path, answer)
        assert answer.headers["content-type"] == "application/json"


def test_codebolts_project_is_named_in_the_query_or_a_header(keyed: Keyed) -> None:
    first, second = keyed.uids
    unclear = keyed.ask("GET", TYPES, key="all")
    hidden = keyed.ask("GET", f"{TYPES}?project_id={second}")

    assert (unclear.status, hidden.status) == (400, 404)
    assert "project_id" in unclear.json["error"] and unclear.json["errors"] == []
    assert keyed.ask("GET", f"{TYPES}?project_id={first}", key="all").json == []


def test_codebolts_paths_without_a_worker_are_unavailable() -> None:
    with WebSystem(worker=False) as web_system:
        web_system.deploy_unserved()
        answer = web_system.get(TYPES)

    assert (answer.status, answer.json["success"]) == (503, False)
    assert int(answer.headers["retry-after"]) >= 1


def test_paths_of_pipelit_and_soat_share_a_prefix(keyed: Keyed) -> None:
    lists, memory = [keyed.ask("GET", f"/api/v1/memories/{name}") for name in ("facts", "none")]

    assert (lists.status, lists.json) == (200, {"items": [], "total": 0})
    assert memory.status == 404 and is_soat(memory.json)


def test_other_paths_answer_problems(keyed: Keyed) -> None:
    for path in ("/api/v1/memories-of-others", "/api/kvs", "/p/x/nowhere"):
        assert keyed.ask("GET", path).problem[0] == 404


def test_a_path_without_a_uid_finds_the_only_pipeline_of_its_key(keyed: Keyed) -> None:
    first, second = keyed.uids
    path = f"/api/storage/memory/only?{AGENT}"

    assert keyed.ask("PUT", path, {"value": 1}).status == 200
    unclear = keyed.ask("GET", path, key="all")

    assert (unclear.status, unclear.json["error"]) == (400, "Invalid")
    assert "/p/{uid}" in unclear.json["detail"]
    statuses = [keyed.ask("GET", f"/p/{uid}{path}", key="all").status for uid in (first, second)]
    assert statuses == [200, 404]


def test_a_hidden_pipeline_is_answered_like_an_unknown_one(keyed: Keyed) -> None:
    second, ghost = keyed.uids[1], "g" * len(keyed.uids[1])
    path = f"/api/storage/memory/k?{AGENT}"

    hidden, unknown = (keyed.ask("GET", f"/p/{uid}{path}") for uid in (second, ghost))

    assert hidden.status == unknown.status == 404
    assert hidden.body.replace(second.encode(), ghost.encode()) == unknown.body


NAMING = ErrorDialect(
    "naming",
    "Naming",
    {},
    lambda problem: (problem["status"], {"why": problem["detail"]}),
    prefixes=(),
    pipeline_parameter="pipeline",
    pipeline_header="x-project-id",
)


@error_dialect(NAMING)
@requires("read")
async def where(request: web.Request) -> web.Response:
    return web.Response(text=await find_pipeline(request))


def test_the_parameters_of_a_dialect_name_the_pipeline(tmp_path: Path) -> None:
    first, second = make_uid(), make_uid()

    alone = asyncio.run(serve_and_ask(tmp_path, make_bundle(first), [("/where", {})]))
    requests: list[tuple[str, dict[str, str]]] = [
        ("/where", {}),
        (f"/where?pipeline={second}", {}),
        ("/where", {"x-project-id": second}),
        ("/where?pipeline=ghost", {}),
    ]
    several = asyncio.run(serve_and_ask(tmp_path, make_bundle(second), requests))

    assert alone == [(200, first)]
    assert [status for status, _ in several] == [400, 200, 200, 404]
    assert [text for _, text in several[1:3]] == [second, second]
    assert "or send ?pipeline=UID" in several[0][1]


async def serve_and_ask(
    root: Path, bundle: Any, requests: list[tuple[str, dict[str, str]]]
) -> list[tuple[int, str]]:
    """Return (status, text) of requests to an application with the route /where."""
    await deploy(root, bundle)
    app = app_for(root)
    app.router.add_get("/where", where)
    async with app[SERVICES].catalog:
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            return await _get_all(f"http://{host}:{port}", requests)
        finally:
            await runner.cleanup()


async def _get_all(url: str, requests: list[tuple[str, dict[str, str]]]) -> list[tuple[int, str]]:
    answers = []
    async with ClientSession(url) as session:
        for path, headers in requests:
            response = await session.get(path, headers=headers)
            answers.append((response.status, await response.text()))
    return answers
