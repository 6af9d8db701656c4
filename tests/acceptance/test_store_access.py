"""The access matrix of stores over HTTP: each right, each command, each kind of caller."""

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.jwts import AUDIENCE, ISSUER, KeyPair, write_key_set
from tests.support.keys import await_closed, make_key
from tests.support.web_system import WebSystem

B = "/api/storage/memory"
TOOL = "/api/tools/memory"
HIDDEN = "zanzibar"  # the value of an entry in each store
NUMBERS = count()


class Right(NamedTuple):
    """How an agent gets access to a store, and the level that results. "" is none."""

    name: str
    level: str


RIGHTS = [
    Right("own", "readwrite"),
    Right("grant search", "search"),
    Right("grant read", "read"),
    Right("grant readwrite", "readwrite"),
    Right("grant expired", ""),
    Right("grant revoked", ""),
    Right("chat", "readwrite"),
    Right("user", "readwrite"),
    Right("none", ""),
]
CALLERS = ["loopback", "key", "jwt"]
RANK = {"": 0, "search": 1, "read": 2, "readwrite": 3}


class Scene(NamedTuple):
    """One store with an entry, one agent that calls, and its credential."""

    web_system: WebSystem
    owner: str
    agent: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def body(self) -> dict[str, Any]:
        return {"agentId": self.agent, "store": self.owner} | self.query

    def ask(self, method: str, path: str, **query: str) -> Answer:
        named = {"agentId": self.agent} | self.query | query
        return ask(self.web_system.url, method, f"{path}?{urlencode(named)}", b"", self.headers)

    def send(self, method: str, path: str, **body: Any) -> Answer:
        return ask(self.web_system.url, method, path, self.body | body, self.headers)

    def tool(self, **arguments: Any) -> Any:
        query = urlencode(self.query | {"agentId": self.agent})
        answer = ask(self.web_system.url, "POST", f"{TOOL}?{query}", arguments, self.headers)
        assert answer.status == 200, answer
        return answer.json


# Each command: the lowest level that allows it, and whether it succeeded.
COMMANDS: dict[str, tuple[str, Callable[[Scene], bool]]] = {
    "list": ("read", lambda one: one.ask("GET", f"{B}/", store=one.owner).status == 200),
    "get": ("read", lambda one: one.ask("GET", f"{B}/note", store=one.owner).status == 200),
    "put": ("readwrite", lambda one: one.send("PUT", f"{B}/mine", value=1).status == 200),
    "delete": (
        "readwrite",
        lambda one: one.ask("DELETE", f"{B}/mine", store=one.owner).status == 200,
    ),
    "search": (
        "search",
        lambda one: bool(
            one.ask("GET", f"{B}/", action="search", q=HIDDEN, store=one.owner).json["results"]
        ),
    ),
    "search everywhere": (
        "search",
        lambda one: bool(one.ask("GET", f"{B}/", action="search", q=HIDDEN).json["results"]),
    ),
    "stores": (
        "search",
        lambda one: (
            one.owner
            in [
                found["storeId"]
                for found in one.ask("GET", f"{B}/", action="stores").json["stores"]
            ]
        ),
    ),
    "tool view": ("read", lambda one: not tool(one, command="view", key="note")),
    "tool create": ("readwrite", lambda one: not tool(one, command="create", key="m", content="a")),
    "tool edit": (
        "readwrite",
        lambda one: not tool(one, command="edit", key="m", old_str="a", new_str="b"),
    ),
    "tool rename": ("readwrite", lambda one: not tool(one, command="rename", key="m", new_str="n")),
    "tool delete": ("readwrite", lambda one: not tool(one, command="delete", key="n")),
}


def tool(scene: Scene, **arguments: Any) -> bool:
    """Return whether a tool call on the store failed."""
    return bool(scene.tool(store=scene.owner, **arguments)["is_error"])


@pytest.fixture(scope="module")
def uid() -> str:
    return make_uid()


@pytest.fixture(scope="module")
def pair() -> KeyPair:
    """Make the key that signs the tokens."""
    return KeyPair("k1")


@pytest.fixture(scope="module")
def opened(
    pair: KeyPair, uid: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WebSystem]:
    """Start a server without keys that verifies tokens."""
    file = tmp_path_factory.mktemp("issuer") / "jwks.json"
    write_key_set(file, pair)
    issuer = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": f"file:{file}",
        "pipeline": uid,
        "user_claim": "user_id",
    }
    with WebSystem(WEB__JWT=json.dumps([issuer])) as web_system:
        web_system.system.deploy(make_bundle(uid))
        yield web_system


@pytest.fixture(scope="module")
def closed() -> Iterator[tuple[WebSystem, dict[str, str]]]:
    """Start a server with a key."""
    with WebSystem() as web_system:
        web_system.system.deploy(make_bundle(make_uid()))
        key = make_key(web_system.system.root)
        await_closed(web_system)
        yield web_system, dict(key.headers)


@pytest.fixture(params=CALLERS)
def service(request: pytest.FixtureRequest) -> "Service":
    """Return a caller that may name any agent, on the server of the caller under test."""
    if request.param == "key":
        web_system, headers = request.getfixturevalue("closed")
        return Service(web_system, headers, None)
    web_system = request.getfixturevalue("opened")
    pair = request.getfixturevalue("pair") if request.param == "jwt" else None
    return Service(web_system, {}, pair)


class Service(NamedTuple):
    """A server, the headers of a trusted caller, and the key of the tokens if agents send them."""

    web_system: WebSystem
    headers: dict[str, str]
    pair: KeyPair | None

    def send(self, method: str, path: str, body: dict[str, Any]) -> None:
        answer = ask(self.web_system.url, method, path, body, self.headers)
        assert answer.status in (200, 201, 204), answer

    def share(self, owner: str, agent: str, level: str, ttl: float | None = None) -> None:
        body = {"agentId": owner, "grantee": agent, "level": level, "ttl": ttl}
        self.send("POST", f"{B}/?action=share", body)

    def make_scene(self, right: str) -> Scene:
        """Make a store with an entry, and give an agent the right to it."""
        number = next(NUMBERS)
        agent, writer = f"agent{number}", f"writer{number}"
        sort = right if right in ("chat", "user") else ""
        owner = {"own": agent, "chat": f"chat{number}", "user": f"user{number}"}.get(right, writer)
        query = {f"{sort}Id": owner} if sort else {}
        author = agent if right == "own" else writer
        body = {"agentId": author, "store": owner, "value": HIDDEN}
        self.send("PUT", f"{B}/note", body | query)
        self._give(right, owner, agent)
        return Scene(self.web_system, owner, agent, query, self._headers_of(agent, right, owner))

    def _give(self, right: str, owner: str, agent: str) -> None:
        kind, _, level = right.partition(" ")
        if kind == "chat" and self.pair is not None:
            body = {"sort": "chat", "agent": agent}
            self.send("POST", f"/v1/pipelines/{self.uid}/contexts/{owner}/open", body)
        if kind != "grant":
            return
        if level == "expired":
            self.share(owner, agent, "readwrite", 0.2)
            time.sleep(0.3)
        elif level == "revoked":
            self.share(owner, agent, "readwrite")
            query = urlencode({"action": "share", "store": owner, "grantee": agent})
            self.send("DELETE", f"{B}/?{query}", {})
        else:
            self.share(owner, agent, level)

    def _headers_of(self, agent: str, right: str, owner: str) -> dict[str, str]:
        if self.pair is None:
            return self.headers
        claims = {"user_id": owner} if right == "user" else {}
        return {"Authorization": f"Bearer {self.pair.sign(sub=agent, **claims)}"}

    @property
    def uid(self) -> str:
        listed = ask(self.web_system.url, "GET", "/v1/pipelines", b"", self.headers).json
        return str(listed["items"][0]["pipeline_uid"])


@pytest.mark.parametrize("right", RIGHTS, ids=[right.name for right in RIGHTS])
def test_each_right_allows_its_commands_and_no_other(service: Service, right: Right) -> None:
    scene = service.make_scene(right.name)

    allowed = [name for name, (_, command) in COMMANDS.items() if command(scene)]

    assert allowed == [
        name for name, (level, _) in COMMANDS.items() if RANK[right.level] >= RANK[level]
    ]


def test_a_store_without_access_answers_like_a_store_that_does_not_exist(service: Service) -> None:
    scene = service.make_scene("none")
    missing = scene._replace(owner="nothing-here")

    for method, path in (("GET", f"{B}/"), ("GET", f"{B}/note"), ("DELETE", f"{B}/note")):
        answers = [one.ask(method, path, store=one.owner) for one in (scene, missing)]
        assert_same_but_for_the_name(answers, scene.owner)
    assert_same_but_for_the_name(
        [one.send("PUT", f"{B}/note", value=1) for one in (scene, missing)], scene.owner
    )
    for command in ("view", "delete"):
        texts = [one.tool(command=command, store=one.owner, key="note") for one in (scene, missing)]
        assert str(texts[0]).replace(scene.owner, "nothing-here") == str(texts[1])


def assert_same_but_for_the_name(answers: list[Answer], owner: str) -> None:
    found, missing = answers
    assert found.status == missing.status == 403
    assert found.body.replace(owner.encode(), b"nothing-here") == missing.body
