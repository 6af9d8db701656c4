"""The page /keys over HTTP: its texts, who sees it, and what its form offers."""

import re
from collections.abc import Iterator

import pytest

from tests.support.http import Answer, ask
from tests.support.keys import ApiKey, make_key, revoke
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


@pytest.fixture(scope="module")
def keyed() -> Iterator[WebSystem]:
    """Yield a server without a worker, with a pipeline, where keys are required."""
    with WebSystem(worker=False) as web_system:
        web_system.deploy_unserved()
        make_key(web_system.system.root)
        wait_for(lambda: web_system.get("/v1/keys").status == 401, "a key is required")
        yield web_system


def show(web_system: WebSystem, path: str, key: ApiKey) -> Answer:
    """Return a page as soon as the server knows the key."""
    wait_for(
        lambda: ask(web_system.url, "GET", "/v1/pipelines", b"", key.headers).status != 401,
        "the key is known",
    )
    return ask(web_system.url, "GET", path, b"", key.headers | {"Accept": "text/html"})


def find_scopes(page: str) -> set[str]:
    return set(re.findall(r'name="scopes" value="(\w+)"', page))


def test_before_the_first_key_the_page_states_the_effect_and_the_command() -> None:
    with WebSystem(worker=False) as web_system:
        page = web_system.get("/keys").body.decode()

    assert "No keys yet. Every program on this computer has access." in page
    assert "Every HTTP request then needs a key, also on this computer." in page
    assert "memrelay keys create laptop" in page and 'href="/v1/keys"' in page
    assert "<noscript>" in page and "This action needs JavaScript." in page
    # Nothing is chosen that changes data or manages keys, and the key expires.
    assert re.findall(r'value="([^"]+)"[^>]* checked', page) == []
    assert re.findall(r'<option value="(\w+)" selected>', page) == ["90d"]
    assert "Tick only what the program needs." in page and "erase records for good" in page


def test_the_table_has_every_key_and_no_secret(keyed: WebSystem) -> None:
    mine, gone = make_key(keyed.system.root), make_key(keyed.system.root)
    expired = make_key(keyed.system.root, lasts_ms=-1)
    revoke(keyed.system.root, gone)

    page = show(keyed, "/keys", mine).body.decode()
    rows = {
        row[1]: row[0] for row in re.findall(r"(<tr.*?(\b[0-9a-f]{12})</code>.*?</tr>)", page, re.S)
    }

    assert "yours" in rows[mine.id] and f'"DELETE /v1/keys/{mine.id}"' in rows[mine.id]
    for key, state in ((gone, "revoked"), (expired, "expired")):
        assert state in rows[key.id] and "<form" not in rows[key.id]
    assert not [key for key in (mine, gone, expired) if key.text[16:] in page]
    assert "first key changes access" not in page


def test_an_unchanged_table_is_not_sent_again(keyed: WebSystem) -> None:
    key = make_key(keyed.system.root)
    first = show(keyed, "/keys/rows", key)
    headers = key.headers | {"If-None-Match": first.headers["etag"]}

    again = ask(keyed.url, "GET", "/keys/rows", b"", headers)
    make_key(keyed.system.root)

    assert (first.status, again.status) == (200, 304)
    wait_for(
        lambda: ask(keyed.url, "GET", "/keys/rows", b"", headers).status == 200,
        "the new key is shown",
    )


def test_the_form_offers_only_what_the_creator_may_give(keyed: WebSystem) -> None:
    limited = make_key(keyed.system.root, "admin", "read", lasts_ms=40 * 86_400_000)
    full = make_key(keyed.system.root)

    narrow, wide = (show(keyed, "/keys", key).body.decode() for key in (limited, full))

    assert find_scopes(narrow) == {"admin", "read"} and len(find_scopes(wide)) == 8
    lifetimes = [re.findall(r'<option value="(.*?)"', page) for page in (narrow, wide)]
    assert lifetimes == [["", "30d", "1d"], ["never", "365d", "90d", "30d", "1d"]]


def test_only_administrators_of_all_pipelines_see_the_page_and_its_menu_entry(
    keyed: WebSystem,
) -> None:
    admin = make_key(keyed.system.root)
    others = make_key(keyed.system.root, "read"), make_key(keyed.system.root, pipelines=("mine",))

    assert b'href="/keys"' in show(keyed, "/", admin).body
    for key in others:
        assert b'href="/keys"' not in show(keyed, "/", key).body
        assert show(keyed, "/keys", key).status == show(keyed, "/keys/rows", key).status == 403
    refused = ask(keyed.url, "GET", "/keys")
    assert (refused.status, refused.headers["location"]) == (303, "/login?next=/keys")
