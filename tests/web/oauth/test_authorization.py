"""The authorization of a client: metadata, consent, tokens, refresh, revocation and step-up."""

import json
import re

from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, ProtectedResourceMetadata

from tests.support.http import ask
from tests.support.keys import make_key
from tests.support.oauth import MCP, OAuthClient, OAuthSystem, User, read_redirect
from tests.support.pages import text_of


def test_a_refusal_leads_to_the_metadata(oauth: OAuthSystem) -> None:
    for path in ("/mcp", f"/mcp/{oauth.uid}", f"/mcp/{oauth.uid}/graph"):
        refused = ask(oauth.url, "POST", path, {"jsonrpc": "2.0", "id": 1, "method": "ping"}, MCP)
        header = refused.headers["www-authenticate"]
        found = re.search(r'resource_metadata="http://127.0.0.1:\d+([^"]+)"', header)
        assert refused.status == 401 and 'scope="search write"' in header and found

        resource = ask(oauth.url, "GET", found[1])
        described = ProtectedResourceMetadata.model_validate_json(resource.body)
        assert str(described.resource) == oauth.url + path
        assert [str(one) for one in described.authorization_servers] == [oauth.url]
        server = ask(oauth.url, "GET", "/.well-known/oauth-authorization-server")
        metadata = OAuthMetadata.model_validate_json(server.body)
        assert str(metadata.issuer) == oauth.url
        assert metadata.code_challenge_methods_supported == ["S256"]


def test_a_user_connects_a_client_with_a_metadata_document(oauth: OAuthSystem) -> None:
    client = oauth.client()
    page = oauth.user.open(client.query())
    answer = oauth.user.decide(client.query(), page)
    redirected = read_redirect(answer)
    tokens = client.redeem(redirected["code"])

    assert "Nobody has verified this name" in text_of(page) and "app.example" in text_of(page)
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "form-action 'self' https://app.example" in page.headers["content-security-policy"]
    assert answer.headers["location"].startswith("https://app.example/callback?code=mrc_")
    assert (redirected["state"], redirected["iss"]) == ("s-1", oauth.url)
    assert tokens.headers["cache-control"] == "no-store"
    assert (tokens.json["scope"], tokens.json["expires_in"]) == ("search write", 3600)
    assert oauth.call(tokens.json["access_token"]).status == 200


def test_a_registered_client_connects_to_all_pipelines_and_gets_one(oauth: OAuthSystem) -> None:
    client = OAuthClient(oauth.url, f"{oauth.url}/mcp", redirect_uri="http://127.0.0.1:7/cb")
    registered = client.register()
    client.redirect_uri = "http://127.0.0.1:50123/cb"  # any port of this machine
    other = oauth.web_system.deploy()
    code = oauth.user.allow(client.query(scope="search read offline_access"), pipeline=other)
    token = client.redeem(code).json["access_token"]

    OAuthClientInformationFull.model_validate_json(registered.body)
    assert registered.json["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in registered.json
    assert oauth.call(token, path="/mcp").status == 200
    refused = json.loads(oauth.call(token, path="/mcp", pipeline=oauth.uid, query="tea").body)
    assert other in refused["result"]["content"][0]["text"]


def test_a_refresh_gives_new_tokens_and_the_old_access_token_lives_on(oauth: OAuthSystem) -> None:
    client = oauth.client()
    first = oauth.connect(client)
    second = client.refresh(first["refresh_token"], resource=client.resource)
    third = client.refresh(second.json["refresh_token"])

    assert (second.status, third.status) == (200, 200)
    tokens = [one["access_token"] for one in (first, second.json, third.json)]
    assert len(set(tokens)) == 3
    assert [oauth.call(token).status for token in tokens] == [200, 200, 200]


def test_a_client_ends_its_own_grant(oauth: OAuthSystem) -> None:
    client = oauth.client()
    tokens = oauth.connect(client)
    answers = [client.revoke(tokens["refresh_token"]), client.revoke(tokens["refresh_token"])]

    assert [one.status for one in answers] == [200, 200]
    assert oauth.call(tokens["access_token"]).status == 401
    assert client.refresh(tokens["refresh_token"]).json["error"] == "invalid_grant"
    assert client.revoke("mra_unknown").status == 200


def test_a_call_that_lacks_a_scope_asks_for_it(oauth: OAuthSystem) -> None:
    client = oauth.client()
    token = oauth.connect(client)["access_token"]
    listed = oauth.send(token, "tools/list")
    harmless = ("ping", "resources/list", "resources/templates/list", "prompts/list")
    statuses = [oauth.send(token, method).status for method in harmless]
    refused = oauth.call(token, "memory_read", limit=1)
    header = refused.headers["www-authenticate"]
    code = oauth.user.allow(client.query(scope="read search write"), scopes=["read", "search"])
    wider = client.redeem(code).json

    assert "memory_forget" in listed.body.decode()
    assert statuses == [200] * 4
    assert refused.status == 403 and 'error="insufficient_scope"' in header
    assert 'scope="read search write"' in header and "resource_metadata=" in header
    assert wider["scope"] == "read search"
    assert oauth.call(wider["access_token"], "memory_read", limit=1).status == 200


def test_a_scope_that_the_key_lacks_is_neither_offered_nor_asked_for(oauth: OAuthSystem) -> None:
    user = User(oauth.url, make_key(oauth.root, "search", pipelines=(oauth.uid,)))
    client = oauth.client()
    query = client.query(scope="search delete")
    page = user.open(query)
    token = client.redeem(user.allow(query, scopes=["search"])).json["access_token"]
    refused = oauth.call(token, "memory_read", limit=1)

    assert "It also asks for delete, which your key does not have" in text_of(page)
    assert 'value="delete"' not in page.body.decode()
    assert refused.status == 200 and "needs a key with the scope read" in refused.body.decode()


def test_a_grant_is_listed_as_a_key_with_a_parent_and_revoked_like_one(oauth: OAuthSystem) -> None:
    client = oauth.client(client_name="Claude")
    tokens = oauth.connect(client, days="7")
    grant = tokens["access_token"].split("_")[1]
    listed = ask(oauth.url, "GET", "/v1/keys?limit=1000", b"", oauth.user.key.headers).json["items"]
    (row,) = [one for one in listed if one["id"] == grant]
    page = oauth.user.send("GET", "/keys")
    revoked = ask(oauth.url, "DELETE", f"/v1/keys/{grant}", b"", oauth.user.key.headers)

    assert (row["name"], row["client"]) == ("Claude", client.client_id)
    assert (row["parent"], row["pipelines"]) == (oauth.user.key.id, [oauth.uid])
    assert row["in_force"] and row["scopes"] == ["search", "write"]
    assert "granted by" in text_of(page)
    assert revoked.status == 204
    assert oauth.call(tokens["access_token"]).status == 401


def test_a_denied_request_tells_the_client(oauth: OAuthSystem) -> None:
    client = oauth.client()
    answer = oauth.user.decide(client.query(), decision="deny")

    assert read_redirect(answer) == {"error": "access_denied", "state": "s-1", "iss": oauth.url}


def test_the_log_has_each_step_and_no_secret(oauth: OAuthSystem) -> None:
    client = oauth.client()
    tokens = oauth.connect(client)
    renewed = client.refresh(tokens["refresh_token"]).json
    client.revoke(renewed["access_token"])
    grant = tokens["access_token"].split("_")[1]
    log = json.dumps(oauth.web_system.web.events)
    ours = [
        one["event"]
        for one in oauth.web_system.web.events
        if one.get("grant") == grant or one.get("client") == client.client_id
    ]

    assert ours == ["oauth_consent", "oauth_issued", "oauth_refreshed", "oauth_revoked"]
    for secret in (*tokens.values(), *renewed.values()):
        assert not isinstance(secret, str) or len(secret) < 20 or secret not in log


def test_the_page_shows_the_whole_target_of_an_application(oauth: OAuthSystem) -> None:
    client = OAuthClient(oauth.url, oauth.resource(), redirect_uri="cursor://some.plugin/callback")
    client.register()

    page = oauth.user.open(client.query()).body.decode()
    assert "an application on your computer (cursor://some.plugin)" in page
