"""The pages of people and of the graph in Chromium: looks, keyboard, axe, edits and their undo."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.axe import find_violations
from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem
from tests.web.test_graph_page import fill as fill_graph
from tests.web.test_graph_page import post
from tests.web.test_people_page import fill as fill_people

pytestmark = pytest.mark.slow

WIDTHS = (320, 768, 1280, 1920)
HOSTILE = "a/b?<script>\u202e\u05e9w" + "w" * 150


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = make_uid()
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), name="travel"))
    fill_people(web_system, uid)
    for number, text in enumerate(("Prefers the window seat", "Travels to Oslo in May")):
        record = {"content": text, "owner": "telegram:7", "kind": "preference", "key": str(number)}
        post(web_system, uid, "records", record)
    post(web_system, uid, "records", {"content": HOSTILE, "owner": HOSTILE})
    fill_graph(web_system, uid)
    entities = [(f"city {number}", "place", ["has a station"]) for number in range(24)]
    pairs = [(f"city {at}", f"city {at // 3}", "near") for at in range(1, 24)]
    fill_graph(web_system, uid, entities, [*pairs, ("Ada", "city 0", "lives in")])
    return uid


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, web_system: WebSystem, uid: str) -> Iterator[Page]:
    where = f"/pipelines/{uid}/people"
    with open_page(browser, web_system, where, viewport={"width": 1280, "height": 900}) as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_pages_fit_and_are_accessible(
    page: Page, web_system: WebSystem, uid: str, width: int, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("people", "people?of=telegram:7", "graph", "graph?node=Ada&depth=2", "graph?q=x"):
        page.goto(f"{web_system.url}/pipelines/{uid}/{path}")
        assert overflow(page) == 0, path
        assert find_violations(page) == [], path
        expect(page.locator("h1")).to_be_visible()
    page.goto(f"{web_system.url}/pipelines/{uid}/graph")
    assert page.locator("#entity-picture").is_visible() == (width > 640)
    assert page.locator(".beside").get_by_role("link", name="Ada").is_visible()


def test_a_hostile_name_leads_to_its_page(page: Page) -> None:
    page.get_by_role("link", name="a/b?<script>").click()
    expect(page.locator("h1")).to_contain_text("a/b?<script>")
    expect(page.locator(".timeline li")).to_have_count(1)
    page.set_viewport_size({"width": 320, "height": 900})
    assert overflow(page) == 0


def test_a_timeline_shows_new_records_and_kinds(
    page: Page, web_system: WebSystem, uid: str
) -> None:
    page.get_by_role("link", name="Cleo").click()
    expect(page.locator("h1")).to_have_text("Cleo")
    save_screenshot(page, "person")
    post(web_system, uid, "records", {"content": "Just now", "owner": "telegram:7"})
    expect(page.locator(".timeline li").first).to_contain_text("Just now")
    page.get_by_role("link", name="fact 1").click()
    expect(page.locator(".timeline li")).to_have_count(1)


def test_a_person_is_forgotten_after_the_name_is_typed(
    page: Page, web_system: WebSystem, uid: str
) -> None:
    name = "x/y <b>"
    post(web_system, uid, "records", {"content": "secret", "owner": name})
    page.goto(f"{web_system.url}/pipelines/{uid}/people?of=x%2Fy+%3Cb%3E")
    page.get_by_text("Forget x/y <b>").click()
    field, button = page.get_by_label("Type the name"), page.get_by_text("Forget permanently")
    field.fill("x/y")
    button.click()
    expect(page.locator(".timeline li")).to_have_count(1)
    field.fill(name)
    button.click()
    expect(page.get_by_text("Forgotten.")).to_be_visible()
    expect(page.get_by_role("link", name=name)).to_have_count(0)


def test_two_users_become_one(page: Page, web_system: WebSystem, uid: str) -> None:
    for channel_id in ("1", "2"):
        body = {"channel": "slack", "channel_id": channel_id, "display_name": f"Eve {channel_id}"}
        post(web_system, uid, "users/identify", body)
    post(web_system, uid, "records", {"content": "her note", "owner": "slack:1"})
    page.goto(f"{web_system.url}/pipelines/{uid}/people?of=slack:1")
    page.get_by_text("Merge with another user").click()
    page.get_by_label("Id of the user who remains").fill("slack:2")
    page.get_by_role("button", name="Merge").click()
    expect(page.locator("h1")).to_have_text("Eve 2")
    expect(page.locator(".timeline")).to_contain_text("her note")


def test_an_entity_is_made_described_connected_and_deleted_by_keyboard(
    page: Page, web_system: WebSystem, uid: str
) -> None:
    page.goto(f"{web_system.url}/pipelines/{uid}/graph?node=Ada&depth=2")
    save_screenshot(page, "graph")
    page.goto(f"{web_system.url}/pipelines/{uid}/graph")
    page.get_by_label("Name", exact=True).fill("Zoe")
    page.get_by_label("Type", exact=True).fill("person")
    page.keyboard.press("Enter")
    expect(page.locator("#entity-name")).to_contain_text("Zoe")

    page.get_by_label("New observation").fill("sings <b>")
    page.keyboard.press("Enter")
    expect(page.locator(".panel .text")).to_have_text(["sings <b>"])
    page.get_by_label("Relation", exact=True).fill("knows")
    page.get_by_label("to the entity").fill("Ada")
    page.keyboard.press("Enter")
    expect(page.locator(".panel").get_by_role("link", name="Ada")).to_be_visible()

    for name, kept in (("the observation sings", ".text"), ("the relation knows", "section li")):
        page.get_by_role("button", name=name).press("Enter")
        expect(page.locator(f".panel {kept}")).to_have_count(0)
        page.get_by_role("button", name="Undo").last.click()
        expect(page.locator(f".panel {kept}")).to_have_count(1)

    page.get_by_role("button", name="Delete the entity").press("Enter")
    page.get_by_role("button", name="Delete", exact=True).press("Enter")
    expect(page.get_by_text("Entity deleted.")).to_be_visible()
    expect(page.locator(".beside").get_by_role("link", name="Zoe")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".beside").get_by_role("link", name="Zoe")).to_be_visible()


def test_the_picture_zooms_and_its_entities_are_links(
    page: Page, web_system: WebSystem, uid: str
) -> None:
    page.goto(f"{web_system.url}/pipelines/{uid}/graph")
    picture = page.locator("#entity-picture")
    page.get_by_role("button", name="Zoom in").click()
    expect(picture).not_to_have_attribute("viewBox", "0 0 1000 680")
    page.get_by_role("button", name="Fit").click()
    expect(picture).to_have_attribute("viewBox", "0 0 1000 680")
    picture.get_by_role("link", name="Acme").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#entity-name")).to_contain_text("Acme")


def test_pages_can_be_read_without_scripts(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    where = f"/pipelines/{uid}/graph"
    with open_page(browser, web_system, where, java_script_enabled=False) as page:
        page.locator("#entity-picture a", has_text="Ada").locator("circle").first.click()
        expect(page.locator("#entity-name")).to_contain_text("Ada")
        page.goto(f"{web_system.url}/pipelines/{uid}/people")
        page.get_by_role("link", name="Cleo").click()
        expect(page.locator(".timeline li").first).to_be_visible()
