"""The page Policies: the list, the test of a text, the scan of a store, and rights."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

AWS, CARD = "AKIAIOSFODNN7EXAMPLE", "4012 8888 8888 1881"
SECRETS = {"name": "no <secrets>", "match": {"find": "secrets"}, "action": "redact"}
CARDS = {"name": "cards", "match": {"find": "credit_card"}, "action": "refuse"}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = make_uid()
    store = {"memory_id": f"instances/{uid}/memories", "policies": [CARDS]}
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), stores=[store]))
    stored = web_system.post(f"/v1/pipelines/{uid}/records", {"content": f"key {AWS}"})
    assert stored.status == 201, stored
    refused = web_system.post(f"/v1/pipelines/{uid}/records", {"content": CARD})
    assert refused.status == 422 and "cards" in refused.json["detail"], refused
    made = web_system.post(f"/v1/pipelines/{uid}/policies/set", {"policy": SECRETS})
    assert made.status in (200, 204), made
    return uid


def show(web_system: WebSystem, uid: str, query: str = "", **headers: str) -> Answer:
    return ask(web_system.url, "GET", f"/pipelines/{uid}/policies{query}", None, headers)


def test_the_page_lists_policies_with_their_verdicts(web_system: WebSystem, uid: str) -> None:
    answer = show(web_system, uid)
    text = text_of(answer)

    assert answer.status == 200
    assert "no <secrets>" in text and b"no <secrets>" not in answer.body
    assert "cards" in text and f"bundle of {uid}" in text and "refuse" in text
    assert AWS not in text and CARD not in text


def test_a_text_is_tested_and_not_stored(web_system: WebSystem, uid: str) -> None:
    def try_text(content: str) -> str:
        path = f"/pipelines/{uid}/policies"
        answer = ask(web_system.url, "POST", path, {"content": content, "kind": "", "source": ""})
        assert answer.status == 200
        return text_of(answer)

    assert "refuse by the policy cards" in try_text(CARD)
    assert "[aws_access_key_id:" in try_text(AWS)
    assert "No policy says anything" in try_text("tea")
    assert ask(web_system.url, "POST", f"/pipelines/{uid}/policies", b"[]").status == 400


def test_a_scan_shows_the_records_of_the_past(web_system: WebSystem, uid: str) -> None:
    text = text_of(show(web_system, uid, "?scan=1"))
    assert "1 record scanned, 1 concerned" in text and "redact" in text


def test_the_page_needs_the_scope_admin() -> None:
    with WebSystem() as web_system:
        uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_commands()))
        reader = make_key(web_system.system.root, "read")
        await_closed(web_system)
        assert show(web_system, uid, **reader.headers).status == 403
        path = f"/pipelines/{uid}/policies"
        body = {"content": "tea"}
        assert ask(web_system.url, "POST", path, body, reader.headers).status == 403


@pytest.mark.slow
@pytest.mark.parametrize("look", [(1280, "light"), (320, "dark")])
def test_a_policy_is_added_tested_and_deleted(
    web_system: WebSystem, uid: str, look: tuple[int, str]
) -> None:
    width, scheme = look
    how: Any = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    name = f"new {width}"
    with (
        chromium() as browser,
        open_page(browser, web_system, f"/pipelines/{uid}/policies", **how) as page,
    ):
        page.get_by_text("Add or replace a policy").click()
        page.get_by_label("Policy as JSON").fill(
            f'{{"name": "{name}", "match": {{"find": "email"}}, "action": "drop"}}'
        )
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("rowheader", name=name)).to_be_visible()
        page.get_by_label("Text", exact=True).fill("write to ada@example.org")
        page.get_by_role("button", name="Test", exact=True).click()
        expect(page.locator("#outcome")).to_contain_text(f"drop by the policy {name}")
        assert overflow(page) <= 0
        page.get_by_role("button", name=f"Delete the policy {name}").click()
        expect(page.get_by_role("rowheader", name=name)).to_have_count(0)
