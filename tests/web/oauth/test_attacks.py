"""Attacks on the authorization of clients. Each is a function whose last answer is a refusal."""

import sqlite3
from collections.abc import Callable
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest

from tests.support.http import Answer, ask
from tests.support.keys import make_key, revoke
from tests.support.oauth import FORM, JSON, MCP, REDIRECT, OAuthClient, OAuthSystem, User

Attack = Callable[[OAuthSystem], Answer]
LOOPBACK_REDIRECT = "http://127.0.0.1:7000/callback"
# By the name of the attack: what it does, the status of the refusal, and a part of its text.
ATTACKS: dict[str, tuple[Attack, int, str]] = {}


def attack(status: int, text: str) -> Callable[[Attack], Attack]:
    """Register an attack with the refusal that it must get."""

    def declare(run: Attack) -> Attack:
        ATTACKS[run.__name__] = run, status, text
        return run

    return declare


def change(oauth: OAuthSystem, sql: str, *values: object) -> None:
    """Change the control plane, for example to let time pass."""
    with sqlite3.connect(oauth.root / "system.db", timeout=10) as database:
        database.execute(sql, values)
    database.close()


def other_user(oauth: OAuthSystem, *scopes: str, **limits: object) -> User:
    return User(oauth.url, make_key(oauth.root, *scopes, **limits))  # type: ignore[arg-type]


# Codes


@attack(400, "the code was used before, so its tokens are revoked")
def a_replayed_code(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    code = oauth.user.allow(client.query())
    tokens = client.redeem(code).json
    answer = client.redeem(code)
    assert oauth.call(tokens["access_token"]).status == 401
    return answer


@attack(400, "the code has expired")
def an_expired_code(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    code = oauth.user.allow(client.query())
    change(oauth, "UPDATE oauth_codes SET expires_at = expires_at - 60000")
    return client.redeem(code)


@attack(400, "the code is of another client")
def a_stolen_code_at_another_client(oauth: OAuthSystem) -> Answer:
    client, thief = oauth.client(), oauth.client()
    return thief.redeem(oauth.user.allow(client.query()), code_verifier=client.verifier)


@attack(400, "code_verifier does not fit")
def a_code_injected_into_another_session_of_the_client(oauth: OAuthSystem) -> Answer:
    victim = oauth.client()
    own_session = OAuthClient(oauth.url, victim.resource, victim.client_id)
    return own_session.redeem(oauth.user.allow(victim.query()))


@attack(400, "redirect_uri is not that of the authorization request")
def a_code_with_another_redirect(oauth: OAuthSystem) -> Answer:
    client = oauth.client(redirect_uris=[REDIRECT, REDIRECT + "2"])
    return client.redeem(oauth.user.allow(client.query()), redirect_uri=REDIRECT + "2")


@attack(400, "redirect_uri must be sent")
def a_code_without_its_redirect(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    return client.redeem(oauth.user.allow(client.query()), redirect_uri=None)


@attack(400, "code_verifier must be sent")
def a_code_without_a_verifier(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    return client.redeem(oauth.user.allow(client.query()), code_verifier=None)


@attack(400, "code_verifier does not fit")
def the_challenge_as_the_verifier(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    query = dict(one.split("=") for one in client.query().split("&"))
    code = oauth.user.allow(client.query())
    return client.redeem(code, code_verifier=query["code_challenge"])


@attack(400, "the code was used before")
def a_second_try_after_a_wrong_verifier(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    code = oauth.user.allow(client.query())
    client.redeem(code, code_verifier="x" * 43)
    answer = client.redeem(code)
    assert ask(oauth.url, "GET", "/v1/keys", b"", oauth.user.key.headers).status == 200
    return answer


@attack(400, "resource is not that of the authorization request")
def a_code_for_another_resource(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    return client.redeem(oauth.user.allow(client.query()), resource=f"{oauth.url}/mcp")


@attack(400, "the code is unknown")
def an_invented_code(oauth: OAuthSystem) -> Answer:
    return oauth.client().redeem("mrc_" + "0" * 64)


@attack(400, "the refresh token is unknown")
def a_code_as_a_refresh_token(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    return client.refresh(oauth.user.allow(client.query()))


@attack(400, "the key of the user was revoked")
def a_code_of_a_key_that_was_revoked_meanwhile(oauth: OAuthSystem) -> Answer:
    user, client = other_user(oauth), oauth.client()
    code = user.allow(client.query())
    revoke(oauth.root, user.key)
    return client.redeem(code)


@attack(400, "Content-Type: application/x-www-form-urlencoded")
def a_token_request_in_json(oauth: OAuthSystem) -> Answer:
    return ask(oauth.url, "POST", "/oauth/token", {"grant_type": "authorization_code"}, JSON)


@attack(400, "a parameter is repeated")
def a_token_request_with_two_clients(oauth: OAuthSystem) -> Answer:
    form = urlencode([("grant_type", "refresh_token"), ("client_id", "a"), ("client_id", "b")])
    return ask(oauth.url, "POST", "/oauth/token", form, FORM)


@attack(400, "grant_type must be")
def a_grant_without_a_user(oauth: OAuthSystem) -> Answer:
    return oauth.client().post("token", {"grant_type": "client_credentials", "client_id": "a"})


@attack(400, "bytes")
def an_oversized_token_request(oauth: OAuthSystem) -> Answer:
    return ask(oauth.url, "POST", "/oauth/token", "a=" + "b" * 20_000, FORM)


# Authorization requests


def open_with(oauth: OAuthSystem, **changes: str | None) -> Answer:
    """Open the consent page of a request with some other parameters."""
    return oauth.user.open(oauth.client().query(**changes))


@attack(400, "code_challenge must be the SHA-256")
def a_request_without_pkce(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, code_challenge=None)


@attack(400, "code_challenge_method must be S256")
def plain_pkce(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, code_challenge_method="plain")


@attack(400, "code_challenge_method must be S256")
def pkce_with_the_default_method(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, code_challenge_method=None)


@attack(400, "response_type must be")
def the_implicit_flow(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, response_type="token")


@attack(400, "response_mode must be")
def a_code_in_the_fragment(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, response_mode="fragment")


@attack(400, "request objects are not supported")
def parameters_from_elsewhere(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, request_uri=oauth.documents.url("/request"))


@attack(400, "a parameter is repeated")
def two_redirects(oauth: OAuthSystem) -> Answer:
    return oauth.user.open(oauth.client().query() + "&redirect_uri=https://evil.example/")


@attack(400, "redirect_uri is none of")
def the_redirect_of_an_attacker(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, redirect_uri="https://evil.example/callback")


@attack(400, "redirect_uri is none of")
def a_redirect_that_begins_like_the_right_one(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, redirect_uri=REDIRECT + "/../evil")


@attack(400, "redirect_uri is none of")
def a_redirect_with_the_right_host_as_its_user(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, redirect_uri="https://app.example@evil.example/callback")


@attack(400, "redirect_uri is none of")
def another_port_of_a_host_that_is_not_this_machine(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, redirect_uri="https://app.example:444/callback")


@attack(400, "redirect_uri is none of")
def another_path_of_this_machine(oauth: OAuthSystem) -> Answer:
    client = oauth.client(redirect_uris=[LOOPBACK_REDIRECT])
    return oauth.user.open(client.query(redirect_uri="http://127.0.0.1:9000/other"))


@attack(400, "redirect_uri is none of")
def a_host_that_begins_like_this_machine(oauth: OAuthSystem) -> Answer:
    client = oauth.client(redirect_uris=[LOOPBACK_REDIRECT])
    return oauth.user.open(client.query(redirect_uri="http://127.0.0.1.evil.example:1/callback"))


@attack(400, "unknown scope")
def an_open_redirect_by_a_faulty_request(oauth: OAuthSystem) -> Answer:
    answer = open_with(oauth, scope="everything")
    assert "location" not in answer.headers and "app.example" not in answer.body.decode()
    return answer


@attack(400, "resource must be the URL of the MCP server")
def a_request_for_no_resource(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, resource=None)


@attack(400, "resource must be the URL of the MCP server")
def the_resource_of_another_server(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, resource=f"https://evil.example/mcp/{oauth.uid}")


@attack(400, "resource must be the URL of the MCP server")
def a_resource_whose_host_begins_like_ours(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, resource=f"{oauth.url}.evil.example/mcp/{oauth.uid}")


@attack(400, "resource must be the URL of the MCP server")
def the_rest_api_as_the_resource(oauth: OAuthSystem) -> Answer:
    return open_with(oauth, resource=f"{oauth.url}/v1/pipelines/{oauth.uid}")


@attack(400, "a parameter is repeated")
def two_resources(oauth: OAuthSystem) -> Answer:
    return oauth.user.open(oauth.client().query() + f"&resource={oauth.url}/mcp")


@attack(404, "no pipeline")
def a_deleted_pipeline(oauth: OAuthSystem) -> Answer:
    uid = oauth.web_system.deploy()
    client = oauth.client()
    client.resource = oauth.resource(uid)
    ask(oauth.url, "DELETE", f"/v1/pipelines/{uid}", b"", oauth.user.key.headers)
    return oauth.user.open(client.query())


# Consent


@attack(403, "the form is not from this session")
def a_form_without_the_csrf_token(oauth: OAuthSystem) -> Answer:
    return oauth.user.decide(oauth.client().query(), csrf=None)


@attack(403, "the form is not from this session")
def the_csrf_token_of_another_session(oauth: OAuthSystem) -> Answer:
    query = oauth.client().query()
    return oauth.user.decide(query, other_user(oauth).open(query))


@attack(403, "the form is not from this session")
def the_csrf_token_of_another_request(oauth: OAuthSystem) -> Answer:
    page = oauth.user.open(oauth.client().query())
    return oauth.user.decide(oauth.client().query(), page)


@attack(403, "a page of https://evil.example sent this request")
def the_form_of_another_site(oauth: OAuthSystem) -> Answer:
    query = oauth.client().query()
    headers = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    return oauth.user.send("POST", f"/oauth/consent?{query}", "decision=allow", **headers)


@attack(403, "may link to this page")
def the_page_in_a_frame_of_another_site(oauth: OAuthSystem) -> Answer:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    query = oauth.client().query()
    return oauth.user.send(
        "GET", f"/oauth/consent?{query}", **headers, **{"Sec-Fetch-Dest": "iframe"}
    )


@attack(303, "")
def a_consent_without_a_session(oauth: OAuthSystem) -> Answer:
    query = oauth.client().query()
    answer = ask(oauth.url, "POST", f"/oauth/consent?{query}", "decision=allow", FORM)
    assert answer.headers["location"].startswith("/login?next=/oauth/consent")
    return answer


@attack(303, "")
def a_consent_by_a_program_with_a_key(oauth: OAuthSystem) -> Answer:
    query, headers = oauth.client().query(), FORM | oauth.user.key.headers
    answer = ask(oauth.url, "POST", f"/oauth/consent?{query}", "decision=allow", headers)
    assert answer.headers["location"].startswith("/login")
    return answer


@attack(303, "")
def a_consent_with_a_key_that_was_just_revoked(oauth: OAuthSystem) -> Answer:
    user, query = other_user(oauth), oauth.client().query()
    page = user.open(query)
    revoke(oauth.root, user.key)
    answer = user.decide(query, page)
    assert answer.headers["location"].startswith("/login")
    return answer


@attack(403, "only scopes of your key")
def a_scope_above_that_of_the_key(oauth: OAuthSystem) -> Answer:
    user = other_user(oauth, "search")
    return user.decide(oauth.client().query(), scopes=["search", "write"])


@attack(403, "only scopes of your key")
def the_scope_admin(oauth: OAuthSystem) -> Answer:
    return oauth.user.decide(oauth.client().query(), scopes=["search", "admin"])


@attack(403, "at least one scope")
def a_grant_of_nothing(oauth: OAuthSystem) -> Answer:
    return oauth.user.decide(oauth.client().query(), scopes=[])


@attack(403, "choose a pipeline of your key")
def a_pipeline_that_the_client_did_not_ask_for(oauth: OAuthSystem) -> Answer:
    other = oauth.web_system.deploy()
    return oauth.user.decide(oauth.client().query(), pipeline=other)


@attack(404, "no pipeline")
def a_pipeline_of_another_key(oauth: OAuthSystem) -> Answer:
    user = other_user(oauth, pipelines=(oauth.web_system.deploy(),))
    return user.open(oauth.client().query())


@attack(403, "choose a lifetime of the form")
def a_grant_that_outlives_the_key(oauth: OAuthSystem) -> Answer:
    user = other_user(oauth, lasts_ms=8 * 86_400_000)
    return user.decide(oauth.client().query(), days="30")


# Tokens


@attack(401, "the access token is for")
def a_token_at_another_pipeline(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client())["access_token"]
    return oauth.call(token, path=f"/mcp/{oauth.web_system.deploy()}")


@attack(401, "the access token is for")
def a_token_of_one_pipeline_at_all_of_them(oauth: OAuthSystem) -> Answer:
    return oauth.call(oauth.connect(oauth.client())["access_token"], path="/mcp")


@attack(401, "the access token is for")
def a_token_at_a_path_that_begins_like_its_own(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client())["access_token"]
    return oauth.call(token, path=f"/mcp/{oauth.uid}2")


@attack(401, "the access token is for")
def a_token_at_the_rest_api(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client())["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    return ask(oauth.url, "GET", f"/v1/pipelines/{oauth.uid}/records", b"", headers)


@attack(401, "The key is malformed")
def a_login_with_a_token(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client())["access_token"]
    return oauth.user.send("POST", "/login", urlencode({"key": token, "next": "/"}))


@attack(401, "the key is malformed")
def a_token_in_the_header_of_keys(oauth: OAuthSystem) -> Answer:
    headers = MCP | {"X-API-Key": oauth.connect(oauth.client())["access_token"]}
    return ask(oauth.url, "POST", f"/mcp/{oauth.uid}", {"jsonrpc": "2.0"}, headers)


@attack(401, "the request has no key")
def a_token_in_the_url(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client())["access_token"]
    path = f"/mcp/{oauth.uid}?access_token={token}"
    return ask(oauth.url, "POST", path, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, MCP)


@attack(401, "the key is malformed")
def a_refresh_token_as_an_access_token(oauth: OAuthSystem) -> Answer:
    return oauth.call(oauth.connect(oauth.client())["refresh_token"])


@attack(401, "the access token is unknown")
def a_refresh_token_renamed_to_an_access_token(oauth: OAuthSystem) -> Answer:
    return oauth.call(oauth.connect(oauth.client())["refresh_token"].replace("mrf_", "mra_"))


@attack(401, "the access token is unknown")
def a_token_with_the_id_of_another_grant(oauth: OAuthSystem) -> Answer:
    one, two = (oauth.connect(oauth.client())["access_token"].split("_") for _ in range(2))
    return oauth.call("_".join((one[0], one[1], two[2])))


@attack(401, "the access token is unknown")
def an_expired_token(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    token = oauth.connect(client)["access_token"]
    change(
        oauth,
        "UPDATE oauth_tokens SET expires_at = expires_at - 3600000 "
        "WHERE kind = 'access' AND key = ?",
        token.split("_")[1],
    )
    oauth.connect(client)  # the server reads the tokens again
    return oauth.call(token)


@attack(401, "the access token is unknown")
def a_token_of_a_revoked_key(oauth: OAuthSystem) -> Answer:
    user, client = other_user(oauth), oauth.client()
    token = client.redeem(user.allow(client.query())).json["access_token"]
    ask(oauth.url, "DELETE", f"/v1/keys/{user.key.id}", b"", oauth.user.key.headers)
    return oauth.call(token)


@attack(404, "no active pipeline")
def a_token_of_a_deleted_pipeline(oauth: OAuthSystem) -> Answer:
    uid = oauth.web_system.deploy()
    client = oauth.client()
    client.resource = oauth.resource(uid)
    token = oauth.connect(client)["access_token"]
    ask(oauth.url, "DELETE", f"/v1/pipelines/{uid}", b"", oauth.user.key.headers)
    return oauth.call(token, path=f"/mcp/{uid}")


@attack(403, "insufficient_scope")
def a_call_beyond_the_granted_scopes(oauth: OAuthSystem) -> Answer:
    token = oauth.connect(oauth.client(), scopes=["search"])["access_token"]
    return oauth.call(token, "memory_write", content="tea")


@attack(400, "the refresh token was used before, so its grant is revoked")
def a_stolen_refresh_token(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    stolen = oauth.connect(client)["refresh_token"]
    thief = client.refresh(stolen).json
    answer = client.refresh(stolen)
    assert oauth.call(thief["access_token"]).status == 401
    assert client.refresh(thief["refresh_token"]).status == 400
    return answer


@attack(400, "of another client")
def a_refresh_by_another_client(oauth: OAuthSystem) -> Answer:
    return oauth.client().refresh(oauth.connect(oauth.client())["refresh_token"])


@attack(400, "was revoked")
def a_refresh_after_the_end_of_the_key(oauth: OAuthSystem) -> Answer:
    user, client = other_user(oauth), oauth.client()
    tokens = client.redeem(user.allow(client.query())).json
    revoke(oauth.root, user.key)
    return client.refresh(tokens["refresh_token"])


@attack(400, "the grant has only the scopes search write")
def a_refresh_for_more_scopes(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    return client.refresh(oauth.connect(client)["refresh_token"], scope="search delete")


@attack(400, "resource is not that of the grant")
def a_refresh_for_another_resource(oauth: OAuthSystem) -> Answer:
    client = oauth.client()
    other = oauth.resource("other")
    return client.refresh(oauth.connect(client)["refresh_token"], resource=other)


@attack(400, "the token is of another client")
def a_revocation_by_another_client(oauth: OAuthSystem) -> Answer:
    tokens = oauth.connect(oauth.client())
    answer = oauth.client().revoke(tokens["access_token"])
    assert oauth.call(tokens["access_token"]).status == 200
    return answer


# Clients


def open_client(oauth: OAuthSystem, ident: str) -> Answer:
    """Open the consent page of a client with this id."""
    return oauth.user.open(OAuthClient(oauth.url, oauth.resource(), ident).query())


@attack(400, "no setting allows it")
def a_document_of_a_metadata_service(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, "https://169.254.169.254/latest/meta-data")


@attack(400, "which is not public")
def a_document_in_a_private_network(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, "https://10.0.0.1/client")


@attack(400, "which is not public")
def a_document_of_this_machine(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, "https://127.0.0.1/client")


@attack(400, "port")
def a_document_at_another_port(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, "https://localhost:6379/client")


@attack(400, "must be an https URL with a path")
def a_document_without_tls(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, oauth.client().client_id.replace("https:", "http:"))


@attack(400, "must be an https URL with a path")
def a_client_id_with_a_user(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, oauth.client().client_id.replace("https://", "https://user@"))


@attack(400, "must have no . or ..")
def a_client_id_with_dots_in_its_path(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, oauth.documents.url("/a/../client"))


@attack(400, "its client_id is not the URL")
def the_document_of_another_client(oauth: OAuthSystem) -> Answer:
    oauth.documents.documents["/mirror"] = {"client_id": oauth.client().client_id}
    return open_client(oauth, oauth.documents.url("/mirror"))


@attack(400, "the server answers 302; redirects are not followed")
def a_document_that_redirects_inside(oauth: OAuthSystem) -> Answer:
    oauth.documents.statuses["/moved"] = 302, oauth.client().client_id
    return open_client(oauth, oauth.documents.url("/moved"))


@attack(400, "more than 65536 bytes")
def an_oversized_document(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, oauth.client(padding="x" * 70_000).client_id)


@attack(400, "it is not JSON")
def a_document_that_is_no_json(oauth: OAuthSystem) -> Answer:
    oauth.documents.documents["/page"] = b"<html>"
    return open_client(oauth, oauth.documents.url("/page"))


@attack(400, "token_endpoint_auth_method must be none")
def a_document_with_a_secret(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, oauth.client(client_secret="tea").client_id)


@attack(400, "must be https, http on this machine, or of an application")
def a_document_with_a_script_as_its_redirect(oauth: OAuthSystem) -> Answer:
    ident = oauth.client(redirect_uris=["javascript://app.example/%0aalert(1)"]).client_id
    return open_client(oauth, ident)


@attack(400, "the client is not registered")
def an_invented_client(oauth: OAuthSystem) -> Answer:
    return open_client(oauth, "mrd_" + "0" * 32)


@attack(400, "the client is not registered")
def a_registration_that_was_not_used_for_a_day(oauth: OAuthSystem) -> Answer:
    client = OAuthClient(oauth.url, oauth.resource())
    client.register()
    change(oauth, "UPDATE oauth_clients SET created_at = created_at - 86400000")
    return oauth.user.open(client.query())


def register(oauth: OAuthSystem, *uris: str) -> Answer:
    """Register from another address of this machine, so that the rate limit does not matter."""
    return register_from(oauth, f"127.0.1.{len(uris[0]) % 250 + 1}", *uris)


def register_from(oauth: OAuthSystem, address: str, *uris: str) -> Answer:
    parts = urlsplit(oauth.url)
    connection = HTTPConnection(parts.hostname or "", parts.port, source_address=(address, 0))
    body = str(list(uris)).replace("'", '"')
    connection.request("POST", "/oauth/register", f'{{"redirect_uris": {body}}}', JSON)
    got = connection.getresponse()
    answer = Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
    connection.close()
    return answer


@attack(400, "must be https, unless its host is 127.0.0.1")
def a_registered_redirect_in_clear_text(oauth: OAuthSystem) -> Answer:
    return register(oauth, "http://evil.example/callback")


@attack(400, "must be https, http on this machine")
def a_registered_redirect_that_is_data(oauth: OAuthSystem) -> Answer:
    return register(oauth, "data:text/html,hello")


@attack(400, "must be https, http on this machine")
def a_registered_redirect_by_which_the_system_connects_elsewhere(oauth: OAuthSystem) -> Answer:
    return register(oauth, "smb://evil.example/share")


@attack(400, "must have no fragment")
def a_registered_redirect_with_a_fragment(oauth: OAuthSystem) -> Answer:
    return register(oauth, "https://app.example/callback#x")


@attack(400, "redirect_uris must be a list of 1 to 10")
def too_many_redirects(oauth: OAuthSystem) -> Answer:
    return register(oauth, *[f"https://app.example/{number}" for number in range(11)])


@attack(429, "an address may register 10 clients a minute")
def a_flood_of_registrations(oauth: OAuthSystem) -> Answer:
    answers = [register_from(oauth, "127.0.2.1", REDIRECT) for _ in range(11)]
    assert [one.status for one in answers[:10]] == [201] * 10
    assert int(answers[10].headers["retry-after"]) > 0
    return answers[10]


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused(oauth: OAuthSystem, name: str) -> None:
    run, status, text = ATTACKS[name]

    answer = run(oauth)

    assert (answer.status, text in answer.body.decode()) == (status, True), answer


@pytest.mark.slow
def test_a_slow_document_is_given_up(oauth: OAuthSystem) -> None:
    oauth.documents.delays_s["/slow"] = 8
    ident = oauth.documents.add("/slow")

    answer = open_client(oauth, ident)

    assert answer.status == 400 and "does not answer" in answer.body.decode()


def test_more_than_40_attacks_are_known() -> None:
    assert len(ATTACKS) >= 40
