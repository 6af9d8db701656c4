"""Access of every route with every kind of key. New routes are covered automatically."""

import asyncio
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from memrelay.memory.control.keys import SCOPES
from memrelay.memory.operations import all_operations
from memrelay.web.auth.access import OPEN, OWN, get_access, needs_all_pipelines
from memrelay.web.models.codebolt.errors import CODEBOLT
from tests.support.bundles import make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, await_closed, make_key, revoke
from tests.support.routes import app_for
from tests.support.run_worker import deploy
from tests.support.web_system import WebSystem

CANARY = "canary-swarm"
# One rule guards all routes of an access, so a few of each show that it holds. All are slow.
SAMPLES = 6


class Route(NamedTuple):
    """A route and its access rule."""

    method: str
    path: str  # with placeholders
    access: str
    for_all_pipelines: bool

    @property
    def has_uid(self) -> bool:
        return "{uid}" in self.path

    @property
    def needs_key(self) -> bool:
        return self.access not in (OPEN, OWN)

    def filled(self, uid: str) -> str:
        return self.path.format(
            uid=uid,
            swarm="chat",
            alias="memory_write_",
            name="chat.js",
            group="records",
            token="t",
            trigger="memory_write",
            ident="1-0",
            entry="1-0",
            guid="nobody",
            workflow=uid,
            id="nobody",
            memory_id="nobody",
            entry_id="nobody",
            key="nobody",
            instance="nobody",
            namespace="nobody",
            uri="nobody",
        )


def routes_of(root: Path) -> list[Route]:
    found = []
    for route in app_for(root).router.routes():
        assert route.resource is not None
        path, access = route.resource.canonical, get_access(route.handler)
        found.append(Route(route.method, path, access, needs_all_pipelines(route.handler)))
    return found


class AccessServer(NamedTuple):
    """A server with two pipelines and one key of each kind."""

    web_system: WebSystem
    routes: list[Route]
    kinds: dict[str, dict[str, str]]
    mine: list[str]

    def ask(self, route: Route, kind: str, uid: str = "") -> Answer:
        return self.send(route, self.kinds[kind], uid)

    def send(self, route: Route, headers: dict[str, str], uid: str = "") -> Answer:
        return ask(
            self.web_system.url, route.method, route.filled(uid or self.mine[0]), b"", headers
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    with WebSystem(worker=False) as web_system:
        root, routes = web_system.system.root, routes_of(tmp_path_factory.mktemp("routes"))
        mine, other = [make_uid() for _ in routes], make_uid()
        asyncio.run(
            deploy(root, *[make_bundle(uid) for uid in mine], make_bundle(other, name=CANARY))
        )
        gone = make_key(root)
        revoke(root, gone)
        right = make_key(root, pipelines=tuple(mine))
        kinds = {
            "none": {},
            "no key at all": {"Authorization": "Bearer x"},
            "another scheme": {"Authorization": f"Basic {right.text}"},
            "malformed": {"Authorization": "Bearer mr_x"},
            "wrong secret": ApiKey("", right.text[:-1] + "01"[right.text.endswith("0")]).headers,
            "another id": ApiKey("", f"mr_{'0' * 12}_{right.text[16:]}").headers,
            "no session": {"Cookie": "memrelay_session=x"},
            "a hash for a key": {"Cookie": f"memrelay_session={right.text}"},
            "expired": make_key(root, lasts_ms=-1).headers,
            "revoked": gone.headers,
            "right": right.headers,
            "everything": make_key(root).headers,
            "other pipeline": make_key(root, pipelines=(other,)).headers,
        }
        kinds |= {
            f"lacks {scope}": make_key(
                root, *[one for one in SCOPES if one != scope], pipelines=tuple(mine)
            ).headers
            for scope in SCOPES
        }
        await_closed(web_system)
        yield AccessServer(web_system, routes, kinds, mine)


@pytest.fixture(params=["samples", pytest.param("all", marks=pytest.mark.slow)])
def routes(request: pytest.FixtureRequest, server: AccessServer) -> list[Route]:
    """Return six routes of each access, spread over all, or all routes."""
    if request.param == "all":
        return server.routes
    by_access: dict[str, list[Route]] = {}
    for route in server.routes:
        by_access.setdefault(route.access, []).append(route)
    return [
        route
        for group in by_access.values()
        for route in group[:: max(1, len(group) // SAMPLES)][:SAMPLES]
    ]


def is_unserved(route: Route, answer: Answer) -> bool:
    """Return whether the call reached an operation: no worker runs in this test."""
    nouns = {operation.noun for operation in all_operations().values()}
    nouns |= {
        "memory-users",
        "workflows",
        "{entry}",
        "rows",  # a list of the console
        *(path.strip("/") for path in CODEBOLT.prefixes),
    }
    return answer.status == 503 and not nouns.isdisjoint(route.path.split("/"))


STRANGERS = (
    "none",
    "no key at all",
    "another scheme",
    "malformed",
    "wrong secret",
    "another id",
    "no session",
    "a hash for a key",
    "expired",
    "revoked",
)


def test_every_route_declares_its_access(server: AccessServer) -> None:
    assert len(server.routes) > 20
    known = {*SCOPES, OPEN, OWN}
    assert [route for route in server.routes if not set(route.access.split(" or ")) <= known] == []


def test_a_caller_without_a_key_reaches_only_open_routes(server: AccessServer) -> None:
    paths = {route.path for route in server.routes if route.access in (OPEN, OWN)}

    assert paths == {
        "/live",
        "/ready",
        "/healthz",
        "/static/{name}",
        "/login",
        "/logout",
        "/openapi.json",
        "/docs",
        "/docs/{group}",
        "/webhooks/{uid}/{alias}",
        "/api/v1/pd/webhook/{token}/{alias}/{trigger}",
    }


def assert_rejects(server: AccessServer, route: Route, kind: str) -> None:
    answers = {server.ask(route, kind, uid).status for uid in (server.mine[0], "ghost")}
    assert answers <= {401} or (answers == {303} and route.method in ("GET", "HEAD")), (
        route,
        kind,
        answers,
    )


def test_every_route_with_a_scope_rejects_callers_without_a_key(server: AccessServer) -> None:
    for route in server.routes:
        if route.needs_key:
            assert_rejects(server, route, "none")


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_route_with_a_scope_rejects_strangers(
    server: AccessServer, routes: list[Route], kind: str
) -> None:
    for route in routes:
        if route.needs_key:
            assert_rejects(server, route, kind)


def test_a_page_redirects_to_the_login_and_back(server: AccessServer) -> None:
    answer = ask(server.web_system.url, "GET", f"/pipelines/{server.mine[0]}")

    assert (answer.status, answer.headers["location"]) == (
        303,
        f"/login?next=/pipelines/{server.mine[0]}",
    )


def test_a_key_without_the_scope_gets_its_name(server: AccessServer, routes: list[Route]) -> None:
    for route in routes:
        if route.access in SCOPES:
            answer = server.ask(route, f"lacks {route.access}")
            assert answer.status == 403, route
            text = unescape(answer.body.decode()).replace('\\"', '"')
            assert route.method == "HEAD" or f'needs the scope "{route.access}"' in text


def test_the_pipeline_of_another_key_is_not_found(
    server: AccessServer, routes: list[Route]
) -> None:
    for route in routes:
        if route.needs_key and route.has_uid:
            there, ghost = (
                server.ask(route, "other pipeline", uid)
                for uid in (server.mine[0], "g" * len(server.mine[0]))
            )
            assert there.status == ghost.status == 404, route
            assert (
                there.body.replace(server.mine[0].encode(), b"g" * len(server.mine[0]))
                == ghost.body
            )


def test_a_route_without_a_uid_shows_only_the_keys_pipelines(server: AccessServer) -> None:
    for route in server.routes:
        if route.access == "read" and "{" not in route.path:
            answer = server.ask(route, "right")
            # Some routes require a memory_id, or the name of the pipeline.
            assert answer.status in (200, 400) or is_unserved(route, answer), route
            assert CANARY.encode() not in answer.body


def test_a_key_with_all_scopes_reaches_its_routes(
    server: AccessServer, routes: list[Route]
) -> None:
    for route, uid in zip(routes, server.mine, strict=False):
        if route.needs_key:
            kind = "everything" if route.for_all_pipelines else "right"
            answer = server.ask(route, kind, uid)
            assert is_unserved(route, answer) or answer.status in (200, 202, 204, 400, 404, 422), (
                route,
                answer,
            )
            assert (
                b"in service has the uid" not in answer.body
            )  # the pipeline is known, but not the requested item


def test_a_key_for_certain_pipelines_does_not_reach_what_concerns_all(server: AccessServer) -> None:
    routes = [route for route in server.routes if route.for_all_pipelines]

    assert {route.path for route in routes} == {"/v1/keys", "/v1/keys/{id}", "/keys", "/keys/rows"}
    assert {server.ask(route, "right").status for route in routes} == {403}


def test_open_routes_give_every_caller_the_same_answer(
    server: AccessServer, routes: list[Route]
) -> None:
    for route in routes:
        if route.access == OPEN:
            assert len({server.ask(route, kind).status for kind in server.kinds}) == 1, route


def test_a_webhook_without_a_secret_accepts_keys_with_publish(server: AccessServer) -> None:
    (route,) = [
        route
        for route in server.routes
        if route.path.startswith("/webhooks/") and route.method == "POST"
    ]

    statuses = {
        kind: server.send(route, headers | {"Content-Type": "text/plain"}).status
        for kind, headers in server.kinds.items()
    }

    assert {kind: statuses[kind] for kind in STRANGERS} == dict.fromkeys(STRANGERS, 401)
    assert (
        statuses["right"],
        statuses["other pipeline"],
        statuses["lacks publish"],
        statuses["lacks read"],
    ) == (
        202,
        404,
        403,
        202,
    )


def test_a_route_without_a_declaration_rejects_requests(tmp_path: Path) -> None:
    async def forgotten(_: web.Request) -> web.Response:
        return web.Response(text="secret")

    async def serve() -> Answer:
        app = app_for(tmp_path)
        app.router.add_get("/forgotten", forgotten)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            host, port = runner.addresses[0][:2]
            return await asyncio.to_thread(ask, f"http://{host}:{port}", "GET", "/forgotten")
        finally:
            await runner.cleanup()

    assert asyncio.run(serve()).problem == (
        403,
        "this route declares no access rule, so nobody may call it",
    )
