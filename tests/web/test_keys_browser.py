"""The page /keys in Chromium: create, use and revoke keys, and the login after the first one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.http import ask
from tests.support.keys import ApiKey, make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

SIZE = {"width": 1280, "height": 800}


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as found:
        yield found


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    return web_system.deploy_unserved()


@pytest.fixture
def limited(web_system: WebSystem, uid: str) -> ApiKey:
    return await_known(web_system, make_key(web_system.system.root, "read", pipelines=(uid,)))


@pytest.fixture
def admin(web_system: WebSystem) -> ApiKey:
    return await_known(web_system, make_key(web_system.system.root))


def await_known(web_system: WebSystem, key: ApiKey) -> ApiKey:
    wait_for(lambda: status_of(web_system, key.text) == 200, "the key is known")
    return key


# After the keys: no other event loop may run next to that of the browser.
@pytest.fixture
def browser(web_system: WebSystem, uid: str) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def choose(page: Page, kind: str, *values: str) -> None:
    """Check the boxes with these values, and no others."""
    for box in page.locator(f"[name={kind}]").all():
        box.set_checked(box.get_attribute("value") in values)


def create(page: Page, name: str, *scopes: str, pipeline: str = "*") -> str:
    """Create a key with the form and return its text."""
    page.get_by_label("Name").fill(name)
    for kind, values in (("pipelines", (pipeline,)), ("scopes", scopes)):
        choose(page, kind, *values)
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("heading", name=f"New key: {name}")).to_be_visible()
    return page.locator("#created code").inner_text()


def log_in(page: Page, text: str, path: str = "/keys") -> None:
    page.locator("input[name=key]").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{path}")


def status_of(web_system: WebSystem, text: str, path: str = "/v1/pipelines") -> int:
    return ask(web_system.url, "GET", path, b"", ApiKey("", text).headers).status


def test_a_key_is_created_used_and_revoked(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, "/keys", viewport=SIZE) as page:
        expect(page.get_by_text("No keys yet.")).to_be_visible()
        first = create(page, "operator", "admin", "read", "search")
        expect(page.get_by_text("HTTP now requires a key")).to_be_visible()
        assert status_of(web_system, "") == 401 and status_of(web_system, first) == 200
        page.wait_for_timeout(1500)
        expect(page.locator("#created code")).to_have_text(first)

        page.get_by_role("button", name="Log in").click()
        log_in(page, first)
        text = create(page, "kitchen", "read", pipeline=uid)
        row = page.get_by_role("row").filter(has_text="kitchen")
        expect(row).to_contain_text("valid")
        save_screenshot(page, "keys")
        page.get_by_role("button", name="I have stored it").click()
        expect(page.locator("#created")).to_be_hidden()
        assert text not in page.content()
        assert [
            status_of(web_system, text, path) for path in (f"/v1/pipelines/{uid}", "/v1/keys")
        ] == [
            200,
            403,
        ]

        row.get_by_role("button", name="Revoke kitchen").click()
        row.get_by_role("button", name="Revoke", exact=True).click()
        expect(row).to_contain_text("revoked")
        expect(row.get_by_role("button")).to_have_count(0)
        assert status_of(web_system, text) == 401


def test_a_limited_key_sees_no_control_for_keys(
    web_system: WebSystem, limited: ApiKey, browser: Browser
) -> None:
    with open_page(browser, web_system, "/login") as page:
        log_in(page, limited.text, "/")
        menu = page.get_by_role("navigation", name="Main")
        expect(menu.get_by_role("link", name="Pipelines")).to_be_visible()
        expect(menu.get_by_role("link", name="Keys")).to_have_count(0)
        page.goto(f"{web_system.url}/keys")
        expect(page.locator("main")).to_contain_text(
            'Permission denied: this needs the scope "admin".'
        )
        expect(page.get_by_role("button", name="Create key")).to_have_count(0)


def test_a_refresh_leaves_the_question_before_a_revocation(
    web_system: WebSystem, admin: ApiKey, browser: Browser
) -> None:
    with open_page(browser, web_system, "/login?next=/keys") as page:
        log_in(page, admin.text)
        text = create(page, "kitchen", "read")
        page.get_by_role("button", name="I have stored it").click()
        row = page.get_by_role("row").filter(has_text="kitchen")
        row.get_by_role("button", name="Revoke kitchen").click()
        new = {"name": "garden", "scopes": ["read"], "pipelines": ["*"]}
        assert ask(web_system.url, "POST", "/v1/keys", new, admin.headers).status == 201
        for _ in range(3):
            with page.expect_response("**/keys/rows"):
                pass

        row.get_by_role("button", name="Revoke", exact=True).click()

        expect(row).to_contain_text("revoked")
        expect(page.get_by_role("row").filter(has_text="garden")).to_be_visible()
        expect(page.locator("#all")).to_be_focused()
        assert status_of(web_system, text) == 401


def test_revoking_the_own_key_leads_to_the_login(
    web_system: WebSystem, admin: ApiKey, browser: Browser
) -> None:
    with open_page(browser, web_system, "/login?next=/keys") as page:
        log_in(page, admin.text)
        page.get_by_role("button", name="Revoke test").click()
        expect(page.get_by_text("Your session ends too.")).to_be_visible()
        expect(page.get_by_text("This is the last valid key.")).to_be_visible()
        page.get_by_role("button", name="Revoke", exact=True).click()
        page.wait_for_url("**/login?next=%2Fkeys")


def test_a_fault_of_the_form_names_the_field(browser: Browser, web_system: WebSystem) -> None:
    with open_page(browser, web_system, "/keys", viewport={"width": 320, "height": 800}) as page:
        page.get_by_label("Name").fill("x")
        choose(page, "scopes")
        page.get_by_role("button", name="Create key").click()

        expect(page.get_by_role("alert")).to_contain_text("a key needs a scope")
        assert overflow(page) == 0
        assert web_system.get("/v1/keys").json["total"] == 0
