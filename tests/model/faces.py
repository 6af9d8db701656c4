"""Three interfaces to the same store, each of which may fail at any moment: REST, the bus, and
messages on a swarm.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import orjson
import redis

from memrelay.bus.client.url import Address
from memrelay.bus.errors import BusBusy, BusUnavailable, NoAnswer, NoOwner
from memrelay.bus.request import NewCall, Requester
from tests.support.client import Client, input_of, make_envelope, parse_message, swarm_of
from tests.support.http import ask
from tests.support.web_system import WebSystem

# the actor over REST without keys; the same over the bus, since a retry may change the interface
ACTOR = "http"
WITHIN_S = 60.0
CODES = {404: "not_found", 412: "version_differs", 422: "refused"}
READS = ("list", "get", "history", "search")
Told = tuple[str, Any]  # ("", output), or (code, detail) of a refusal


class CallerFaces(Protocol):
    """The interfaces to the store. Each returns ("", output), or (code, detail) of a refusal."""

    uid: str
    now_ms: Callable[[], int]

    def call(self, op: str, given: dict[str, Any], faces: list[str]) -> tuple[str, Any]:
        """Make a call once."""

    def call_twice(self, op: str, given: dict[str, Any], faces: list[str]) -> tuple[str, Any]:
        """Make a call twice; it must have one effect."""

    def say(self, text: str, sender: str) -> Any:
        """Return the answer of that agent."""

    def soat(self, path: str) -> Any:
        """Return the resource at a SOAT path; None if the interface has none."""


class Away(Exception):
    """Raised without an answer; the call may have taken effect."""


class Faces:
    """The interfaces of one caller, which makes one call after the other."""

    def __init__(self, web_system: WebSystem, uid: str, name: str) -> None:
        """`name` begins each of its keys."""
        self.web_system, self.uid, self._name = web_system, uid, name
        self._numbers = itertools.count(1)
        self._client = Client(web_system.system.client.socket)
        self.now_ms = lambda: time.time_ns() // 1_000_000
        self.retries = 0

    def close(self) -> None:
        """Close the connections."""
        self._client.redis.close()

    def call(self, op: str, given: dict[str, Any], faces: list[str], key: str = "") -> Told:
        """Call the interfaces in turn under one idempotency key until one answers."""
        key = key or self.new_key()
        until = time.monotonic() + WITHIN_S
        for face in itertools.cycle(faces):
            try:
                return self._rest(op, given, key) if face == "rest" else self._bus(op, given, key)
            except Away as away:
                assert time.monotonic() < until, (
                    f"{op} was not answered within {WITHIN_S:g} s: {away}"
                )
                self.retries += 1
                time.sleep(0.05)
        raise AssertionError("no face is given")

    def call_twice(self, op: str, given: dict[str, Any], faces: list[str]) -> Told:
        """Repeat a call under the same key over another interface; check for one effect and an
        equal answer.
        """
        key = self.new_key()
        first, again = self.call(op, given, faces, key), self.call(op, given, faces[::-1], key)
        assert first[0] == again[0] and (first[0] or first == again), (
            f"{op} {given}: {first}, and again {again}"
        )
        return first

    def new_key(self) -> str:
        """Return a key that no other call has."""
        return f"{self._name}-{next(self._numbers)}"

    def _rest(self, op: str, given: dict[str, Any], key: str) -> Told:
        noun, _, verb = op.partition(".")
        rest = dict(given)
        versions = rest.pop("if_version", None)
        headers = {"If-Match": f'"{versions[0]}"'} if versions else {}
        method, path = _place(noun, verb, rest)
        if verb not in READS:
            headers["Idempotency-Key"] = key
        if method in ("GET", "DELETE"):
            path += "?" + urlencode(
                {
                    name: json.dumps(value) if isinstance(value, bool | dict) else value
                    for name, value in rest.items()
                }
            )
        body: bytes | dict[str, Any] = b"" if method in ("GET", "DELETE") else rest
        try:
            answer = ask(
                self.web_system.url, method, f"/v1/pipelines/{self.uid}{path}", body, headers
            )
        except (OSError, HTTPException) as error:
            raise Away(repr(error)) from error
        if answer.status in (503, 504):
            raise Away(answer.body.decode())
        if answer.status in CODES:
            return CODES[answer.status], answer.problem[1]
        assert answer.status in (200, 201, 204), f"{op} {given}: {answer}"
        return "", answer.json if answer.body else None

    def _bus(self, op: str, given: dict[str, Any], key: str) -> Told:
        mutates = op.partition(".")[2] not in READS
        new = NewCall(
            self.uid,
            op,
            orjson.dumps(given),
            mutates,
            actor=ACTOR,
            producer_id=key if mutates else "",
        )

        async def whole() -> dict[str, Any]:
            async with Requester(Address(path=str(self._client.socket))) as requester:
                return await requester.call(new, 10.0)

        try:
            answer = asyncio.run(whole())
        except (BusUnavailable, BusBusy, NoOwner, NoAnswer) as error:
            raise Away(repr(error)) from error
        if "error" in answer:
            code, detail = answer["error"]["code"], answer["error"]["detail"]
            if code == "unavailable":
                raise Away(detail)
            return code, detail
        return "", answer["output"]

    def soat(self, path: str) -> Any:
        """Return the resource at a SOAT path."""
        return ask(self.web_system.url, "GET", f"/api/v1{path}").json

    def say(self, text: str, sender: str) -> Any:
        """Return the answer of the agent `sender` to a text on the swarm; send it until it has
        arrived.
        """
        key, idents, until = self.new_key(), list[str](), time.monotonic() + WITHIN_S
        while True:
            assert time.monotonic() < until, (
                f"{text!r} had no answer of {sender} within {WITHIN_S:g} s"
            )
            try:
                if not idents or self.retries % 3 == 0:
                    entry = {"swarm": "chat", "data": make_envelope(text), "id": key}
                    idents.append(self._client.redis.xadd(input_of(self.uid), entry).decode())
                return self._answer(idents, sender)
            except (redis.RedisError, Away):
                self.retries += 1
                time.sleep(0.05)

    def _answer(self, idents: list[str], sender: str) -> Any:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            for _, fields in self._client.redis.xrevrange(swarm_of(self.uid, "chat"), count=300):
                said = parse_message(fields[b"mid"], fields[b"data"])
                if said.input in idents and said.sender == sender:
                    return orjson.loads(said.text)
            time.sleep(0.003)
        raise Away("nothing was said")


def _place(noun: str, verb: str, rest: dict[str, Any]) -> tuple[str, str]:
    """Return (method, path) of an operation; its ID is removed from the remaining fields."""
    at_one = verb in ("get", "update", "delete", "history", "restore")
    path = f"/{noun}/{quote(rest.pop('id' if 'id' in rest else 'guid'))}" if at_one else f"/{noun}"
    match verb:
        case "create":
            return "POST", path
        case "list" | "get":
            return "GET", path
        case "update":
            return "PATCH", path
        case "delete":
            return "DELETE", path
        case "history":
            return "GET", f"{path}/history"
    return "POST", f"{path}/{verb}"
