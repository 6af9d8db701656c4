"""The page /keys in Chromium: create, use and revoke keys, and the login after the first one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.console import keep, open_page, overflow
from tests.support.http import ask
from tests.support.keys import Held, make_key
from tests.support.served import Served
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

SIZE = {"width": 1280, "height": 800}


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(worker=False) as found:
        yield found


@pytest.fixture
def uid(served: Served) -> str:
    return served.deploy_unserved()


@pytest.fixture
def limited(served: Served, uid: str) -> Held:
    return await_known(served, make_key(served.house.root, "read", pipelines=(uid,)))


@pytest.fixture
def admin(served: Served) -> Held:
    return await_known(served, make_key(served.house.root))


def await_known(served: Served, key: Held) -> Held:
    wait_for(lambda: status_of(served, key.text) == 200, "the key is known")
    return key


# After the keys: no other event loop may run next to that of the browser.
@pytest.fixture
def browser(served: Served, uid: str) -> Iterator[Browser]:
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


def status_of(served: Served, text: str, path: str = "/v1/pipelines") -> int:
    return ask(served.url, "GET", path, b"", Held("", text).headers).status


def test_a_key_is_created_used_and_revoked(browser: Browser, served: Served, uid: str) -> None:
    with open_page(browser, served, "/keys", viewport=SIZE) as page:
        expect(page.get_by_text("No keys yet.")).to_be_visible()
        first = create(page, "operator", "admin", "read", "search")
        expect(page.get_by_text("HTTP now requires a key")).to_be_visible()
        assert status_of(served, "") == 401 and status_of(served, first) == 200
        page.wait_for_timeout(1500)
        expect(page.locator("#created code")).to_have_text(first)

        page.get_by_role("button", name="Log in").click()
        log_in(page, first)
        text = create(page, "kitchen", "read", pipeline=uid)
        row = page.get_by_role("row").filter(has_text="kitchen")
        expect(row).to_contain_text("valid")
        keep(page, "keys")
        page.get_by_role("button", name="I have stored it").click()
        expect(page.locator("#created")).to_be_hidden()
        assert text not in page.content()
        assert [status_of(served, text, path) for path in (f"/v1/pipelines/{uid}", "/v1/keys")] == [
            200,
            403,
        ]

        row.get_by_role("button", name="Revoke kitchen").click()
        row.get_by_role("button", name="Revoke", exact=True).click()
        expect(row).to_contain_text("revoked")
        expect(row.get_by_role("button")).to_have_count(0)
        assert status_of(served, text) == 401


def test_a_limited_key_sees_no_control_for_keys(
    served: Served, limited: Held, browser: Browser
) -> None:
    with open_page(browser, served, "/login") as page:
        log_in(page, limited.text, "/")
        menu = page.get_by_role("navigation", name="Main")
        expect(menu.get_by_role("link", name="Pipelines")).to_be_visible()
        expect(menu.get_by_role("link", name="Keys")).to_have_count(0)
        page.goto(f"{served.url}/keys")
        expect(page.locator("main")).to_contain_text(
            'Permission denied: this needs the scope "admin".'
        )
        expect(page.get_by_role("button", name="Create key")).to_have_count(0)


def test_revoking_the_own_key_leads_to_the_login(
    served: Served, admin: Held, browser: Browser
) -> None:
    with open_page(browser, served, "/login?next=/keys") as page:
        log_in(page, admin.text)
        page.get_by_role("button", name="Revoke test").click()
        expect(page.get_by_text("Your session ends too.")).to_be_visible()
        expect(page.get_by_text("This is the last valid key.")).to_be_visible()
        page.get_by_role("button", name="Revoke", exact=True).click()
        page.wait_for_url("**/login?next=%2Fkeys")


def test_a_fault_of_the_form_names_the_field(browser: Browser, served: Served) -> None:
    with open_page(browser, served, "/keys", viewport={"width": 320, "height": 800}) as page:
        page.get_by_label("Name").fill("x")
        choose(page, "scopes")
        page.get_by_role("button", name="Create key").click()

        expect(page.get_by_role("alert")).to_contain_text("a key needs a scope")
        assert overflow(page) == 0
        assert served.get("/v1/keys").json["total"] == 0
