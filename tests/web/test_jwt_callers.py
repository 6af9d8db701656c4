"""Verification of JWTs: signatures, claims, key ids, and key sets that change."""

import asyncio
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from structlog.testing import capture_logs

from memrelay.web.auth.authorizer import Caller, Credentials, TokenIdentity
from memrelay.web.auth.jwks import FileKeys
from memrelay.web.auth.jwt_callers import JwtVerifier, _Source, make_verifier
from memrelay.web.server.errors import NotAllowed, Problem, Unauthorized, Unavailable
from memrelay.web.server.options import JwtIssuer
from tests.support.bundles import make_bundle, make_uid
from tests.support.http import Answer, ask
from tests.support.jwts import (
    AUDIENCE,
    ISSUER,
    KeyPair,
    make_issuer,
    write_key_set,
)
from tests.support.web_system import WebSystem

UID = make_uid()
RSA, EC, ED = KeyPair("rsa", "RS256"), KeyPair("ec", "ES256"), KeyPair("ed", "EdDSA")
STRANGER = KeyPair("ed", "EdDSA")
MEMORY = "/api/storage/memory"
FAR_FUTURE_S = 4_000_000_000  # in 2096; a test id must not change with the time
BOTH = frozenset({"search", "read", "write", "delete"})


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    write_key_set(file, RSA, EC, ED)
    return file


def authenticate(file: Path, token: str, **fields: Any) -> Caller:
    return verify([make_issuer(file, UID, **fields)], token, file.parent)


def verify(issuers: list[JwtIssuer], token: str, folder: Path) -> Caller:
    return asyncio.run(make_verifier(issuers, folder).authenticate(token))


def refusal(file: Path, token: str, **fields: Any) -> str:
    with pytest.raises(Unauthorized) as raised:
        authenticate(file, token, **fields)
    return raised.value.detail


@pytest.mark.parametrize("pair", [RSA, EC, ED], ids=lambda pair: pair.algorithm)
def test_a_token_of_each_algorithm_names_its_agent(keys: Path, pair: KeyPair) -> None:
    caller = authenticate(keys, pair.sign(agent_id="a1", sub="someone", user_id="u1"))

    assert (caller.scopes, caller.pipelines) == (BOTH, frozenset({UID}))
    assert caller.name == "jwt:a1"
    assert (caller.token, caller.is_service) == (TokenIdentity("a1", "u1"), False)


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "has expired"),
        ({"exp": None}, 'missing the "exp" claim'),
        ({"nbf": FAR_FUTURE_S}, "not yet valid"),
        ({"iss": "https://other.example"}, "issuer is not one"),
        ({"iss": None}, "issuer is not one"),
        ({"aud": "other"}, "Audience"),
        ({"aud": None}, 'missing the "aud" claim'),
        ({"sub": None}, "names no agent"),
        ({"agent_id": ""}, "names no agent"),
        ({"agent_id": "x" * 65}, "names no agent"),
        ({"agent_id": "service:x"}, "only the claim sub can name a service"),
        ({"kid": "other"}, "key is none of"),
        ({"kid": "rsa"}, "key is none of"),
        ({"kid": None}, "has no kid"),
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(
    keys: Path, claims: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(keys, ED.sign(**claims))


def test_30_seconds_of_difference_between_the_clocks_are_accepted(keys: Path) -> None:
    now_s = int(time.time())
    caller = authenticate(keys, ED.sign(exp=now_s - 10, nbf=now_s + 15))

    assert caller.expires_at == (now_s + 20) * 1000


def test_only_a_listed_algorithm_and_the_key_of_the_issuer_are_accepted(keys: Path) -> None:
    assert "Signature" in refusal(keys, STRANGER.sign())
    assert "algorithm is not one of RS256" in refusal(keys, ED.sign(), algorithms=("RS256",))
    # With the public key as the secret of an HMAC, and without a signature.
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "a1", "exp": int(time.time()) + 60}
    public = RSA.jwk["n"]
    for token in (
        jwt.encode(claims, public, "HS256", {"kid": "rsa"}),
        jwt.encode(claims, "", "none", {"kid": "rsa"}),
    ):
        assert "algorithm is not one of" in refusal(keys, token)


def test_a_malformed_token_is_refused(keys: Path) -> None:
    head, payload, signature = ED.sign().split(".")
    forged = urlsafe_b64encode(b'{"iss": "https://id.example.com", "sub": "a2"}').decode()
    for token in (f"{head}.{payload}.", f"x.{payload}.{signature}", f"{head}..{signature}"):
        assert refusal(keys, token)
    for token in (f"é.{payload}.{signature}", f"{head}.é.{signature}", f"{head}.{payload}.\udce9"):
        assert refusal(keys, token)
    assert refusal(keys, f"{head}.{payload}.{signature}.x.y")
    assert refusal(keys, f"{head}.{forged.rstrip('=')}.{signature}")


def test_a_subject_can_be_a_service_of_one_pipeline(keys: Path) -> None:
    caller = authenticate(keys, ED.sign(sub="service:portal"))

    assert (caller.is_service, caller.token) == (True, TokenIdentity("", ""))
    assert (caller.sees(UID), caller.sees(make_uid())) == (True, False)


@pytest.mark.parametrize(
    ("scope", "access"),
    [
        ("read", {"search", "read"}),
        ("write", {"write", "delete"}),
        ("openid read write", BOTH),
        ("openid", set()),
        (7, set()),
    ],
)
def test_the_claim_scope_limits_the_access(keys: Path, scope: object, access: set[str]) -> None:
    assert authenticate(keys, ED.sign(scope=scope)).scopes == access


def test_a_single_key_needs_no_kid(keys: Path) -> None:
    write_key_set(keys, ED)

    assert authenticate(keys, ED.sign(kid=None)).name == "jwt:a1"


def test_the_audience_selects_the_pipeline(keys: Path) -> None:
    other = make_uid()
    issuers = [make_issuer(keys, UID), make_issuer(keys, other, audience="other")]

    assert verify(issuers, ED.sign(aud=["x", "other"]), keys.parent).pipelines == {other}
    assert verify(issuers, ED.sign(), keys.parent).pipelines == {UID}


def test_other_claims_can_name_the_agent_and_the_user(keys: Path) -> None:
    token = RSA.sign(bot="b1", person="p1", agent_id="a1", user_id="u1")

    caller = authenticate(keys, token, agent_claim="bot", user_claim="person")

    assert caller.token == TokenIdentity("b1", "p1")


def test_a_changed_file_is_read_again(keys: Path) -> None:
    async def run() -> None:
        verifier = make_verifier([make_issuer(keys, UID)], keys.parent)
        added = KeyPair("new")
        assert (await verifier.authenticate(ED.sign())).name == "jwt:a1"
        write_key_set(keys, added)
        async with asyncio.timeout(5):
            while not await _accepts(verifier.authenticate, added.sign()):
                await asyncio.sleep(0.05)
        assert not await _accepts(verifier.authenticate, ED.sign())
        # A half-written file leaves the last good set in force.
        keys.write_text('{"keys": [')
        await asyncio.sleep(0)
        assert await _accepts(verifier.authenticate, added.sign())

    asyncio.run(run())


def test_a_remembered_token_expires_and_the_oldest_ones_are_forgotten(keys: Path) -> None:
    now_s = time.time()

    async def run() -> None:
        nonlocal now_s
        source = _Source(make_issuer(keys, UID), FileKeys(str(keys)))
        verifier = JwtVerifier([source], max_verified=2, clock=lambda: now_s)
        first, *others = [ED.sign(sub=f"a{number}") for number in range(4)]
        known = await verifier.authenticate(first)
        assert await verifier.authenticate(first) is known
        now_s += 331
        # It is verified again. The clock of PyJWT is the real one.
        assert await verifier.authenticate(first) is not known
        for token in others:
            await verifier.authenticate(token)
        assert len(verifier._verified) <= 2

    asyncio.run(run())


async def _accepts(authenticate: Any, token: str) -> bool:
    try:
        await authenticate(token)
    except Problem:
        return False
    return True


def test_a_file_that_cannot_be_read_is_a_fault_of_the_server(tmp_path: Path) -> None:
    for content in (b"", b"{}", b'{"keys": [{"kty": "oct", "k": "eHg"}]}'):
        (tmp_path / "keys.json").write_bytes(content)
        with pytest.raises(Unavailable, match="`memrelay doctor`"):
            authenticate(tmp_path / "keys.json", ED.sign())


def test_an_empty_set_accepts_no_token(keys: Path) -> None:
    keys.write_bytes(b'{"keys": []}')

    for token in (ED.sign(), ED.sign(kid=None)):
        assert "none of the issuer's keys" in refusal(keys, token)


def test_a_malformed_key_does_not_disable_the_others(keys: Path) -> None:
    bad = [7, {"kty": "RSA", "kid": "bad", "n": "", "e": "AQAB"}, {**EC.jwk, "x": "AA"}, {}]
    private = {**STRANGER.jwk, "kid": "leaked", "d": "AAAA"}
    keys.write_bytes(orjson.dumps({"keys": [*bad, private, ED.jwk]}))

    with capture_logs() as events:
        assert authenticate(keys, ED.sign()).name == "jwt:a1"

    assert [event["event"] for event in events] == ["jwks_key_skipped"] * 4
    assert {event["place"] for event in events} == {f"file:{keys}"}
    assert "private key" in events[-1]["reason"] and events[-1]["kid"] == "leaked"


def test_a_private_key_in_a_set_is_refused(keys: Path) -> None:
    keys.write_bytes(orjson.dumps({"keys": [{**ED.jwk, "d": "AAAA"}]}))

    with pytest.raises(Unavailable, match="`memrelay doctor`"):
        authenticate(keys, ED.sign())


@pytest.fixture(scope="module")
def web_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSystem]:
    file = tmp_path_factory.mktemp("jwks") / "keys.json"
    write_key_set(file, ED)
    entry = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"file:{file}", "pipeline": UID}
    with WebSystem(WEB__JWT=orjson.dumps([entry]).decode()) as web_system:
        web_system.system.deploy(make_bundle(UID))
        yield web_system


def send(web_system: WebSystem, token: str, method: str, path: str, **body: object) -> Answer:
    headers = {"Authorization": f"Bearer {token}"}
    return ask(web_system.url, method, path, orjson.dumps(body) if body else b"", headers)


def statuses(web_system: WebSystem, token: str, *queries: str) -> list[int]:
    return [send(web_system, token, "GET", f"{MEMORY}/k?{query}").status for query in queries]


def test_a_jwt_reads_and_writes_its_own_store_only(web_system: WebSystem) -> None:
    token = ED.sign()

    assert send(web_system, token, "PUT", f"{MEMORY}/k", value=1).status == 200
    assert send(web_system, token, "PUT", f"{MEMORY}/k", value=1, store="a2").status == 403
    assert send(web_system, token, "PUT", f"{MEMORY}/k", value=1, agentId="a2").status == 403
    queries = ("", "agentId=a1", "agentId=undefined", "agentId=a2", "store=a2")
    assert statuses(web_system, token, *queries) == [200, 200, 200, 403, 403]
    assert statuses(web_system, ED.sign(exp=1), "") == [401]
    item = f"/v1/pipelines/{UID}/items/k?store=a1"
    assert send(web_system, token, "GET", item).json["value"] == 1
    assert send(web_system, token, "GET", f"{item}&agent=a2").status == 403
    assert (
        send(web_system, token, "GET", f"/v1/pipelines/{make_uid()}/items/k?store=a1").status == 404
    )
    tool = send(web_system, token, "POST", "/api/tools/memory", command="view", key="k")
    assert tool.json["value"]["value"] == 1


def test_agents_use_the_same_idempotency_key_for_calls_of_their_own(web_system: WebSystem) -> None:
    def put(agent: str, value: int) -> Answer:
        headers = {"Authorization": f"Bearer {ED.sign(sub=agent)}", "Idempotency-Key": "same"}
        return ask(web_system.url, "PUT", f"{MEMORY}/once", {"value": value}, headers)

    first, second, again, other = put("i1", 1), put("i2", 2), put("i1", 1), put("i1", 3)

    assert (first.status, second.status, again.body) == (200, 200, first.body)
    assert (second.json["ownerId"], second.json["value"]) == ("i2", 2)
    assert (other.status, "'same'" in other.json["detail"]) == (422, True)


def test_a_refused_jwt_is_never_the_local_caller(web_system: WebSystem) -> None:
    expired = ED.sign(exp=1)

    assert statuses(web_system, f"{expired}=", "agentId=a1") == [401]
    path = f"{MEMORY}/k?agentId=a1"
    assert ask(web_system.url, "GET", path, b"", {"X_API_Key": expired}).status == 401


def test_a_jwt_reaches_a_chat_or_a_user_only_by_a_context_or_its_claim(
    web_system: WebSystem,
) -> None:
    assert statuses(web_system, ED.sign(), "store=c1&chatId=c1", "store=u1&userId=u1") == [403, 403]
    opened = f"/v1/pipelines/{UID}/contexts/c1/open"
    assert web_system.post(opened, {"agent": "a1", "sort": "chat"}).status == 200
    # The keys do not exist, but the stores are accessible now.
    assert statuses(web_system, ED.sign(), "store=c1&chatId=c1") == [404]
    token = ED.sign(user_id="u1")
    queries = ("store=u1", "store=u1&userId=u1", "store=u2&userId=u2")
    assert statuses(web_system, token, *queries) == [404, 404, 403]


def test_a_service_acts_for_every_agent_of_its_pipeline(web_system: WebSystem) -> None:
    token = ED.sign(sub="service:portal")

    assert send(web_system, token, "PUT", f"{MEMORY}/s", value=1, agentId="a7").status == 200
    assert send(web_system, token, "GET", f"{MEMORY}/s?agentId=a7").json["ownerId"] == "a7"
    assert send(web_system, token, "GET", f"{MEMORY}/s").status == 400
    in_chat = "agentId=a7&chatId=c7&store=c7"
    assert send(web_system, token, "GET", f"{MEMORY}/?{in_chat}").status == 200


def test_the_scope_of_a_jwt_limits_its_calls(web_system: WebSystem) -> None:
    reads, writes = ED.sign(scope="read"), ED.sign(scope="write")

    assert send(web_system, reads, "PUT", f"{MEMORY}/k", value=1).status == 403
    assert send(web_system, writes, "PUT", f"{MEMORY}/k", value=1).status == 200
    assert statuses(web_system, writes, "") == [403]
    assert statuses(web_system, reads, "") == [200]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/pipelines"),
        ("GET", f"/v1/pipelines/{UID}/records"),
        ("POST", f"/v1/pipelines/{UID}/records/erase"),
        ("GET", f"/v1/pipelines/{UID}/contexts"),
        ("POST", f"/v1/pipelines/{UID}/stores/configure"),
        ("POST", f"/v1/pipelines/{UID}/swarms/chat/messages"),
        ("GET", f"/v1/pipelines/{UID}/dead-letters"),
        ("GET", "/metrics"),
        ("GET", "/api/v1/memories"),
    ],
)
def test_a_jwt_reaches_no_other_route(web_system: WebSystem, method: str, path: str) -> None:
    for token in (ED.sign(), ED.sign(sub="service:portal")):
        assert send(web_system, token, method, path, x=1).status in (403, 404, 405)


def test_a_jwt_is_verified_on_loopback_without_keys(web_system: WebSystem) -> None:
    def status(token: str) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        return ask(web_system.url, "GET", "/status", b"", headers).problem

    assert web_system.get("/status").status == 200
    assert status(ED.sign(exp=1)) == (401, "the JWT has expired; get a new one from its issuer")
    assert status(STRANGER.sign())[0] == 401
    assert status(ED.sign()) == (
        403,
        "a JWT reaches only items, grants, stores.list and the memory tool; use a key",
    )
    assert status(ED.sign(scope="write")) == (
        403,
        'this needs the scope "read". The JWT has delete, write',
    )


def test_the_fault_of_a_caller_with_an_expired_token_ends_its_requests() -> None:
    caller = Caller(frozenset(), frozenset({UID}), expires_at=1000, token=TokenIdentity("a1", ""))

    assert Credentials({}, {}).find_fault(caller, 999) == ""
    assert Credentials({}, {}).find_fault(caller, 1000) == "the JWT has expired"
    with pytest.raises(NotAllowed):
        caller.check_route(is_for_agents=False)
