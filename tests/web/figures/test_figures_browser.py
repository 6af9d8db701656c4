"""The charts and the home page in Chromium: values at the pointer, the viewer's zone, refreshes."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from memrelay.memory.control.figures_file import FiguresFile
from memrelay.web.figures.differences import ALL
from tests.support.browser import chromium
from tests.support.bundles import make_commands
from tests.support.console import open_page, overflow
from tests.support.figures import fill_week
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WARM_POLLS, POLLS = 400, 200


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = web_system.deploy(*make_commands(), pipeline_name="tea")
    fill_week(web_system.system.root, [uid], time.time())
    return uid


@pytest.fixture(scope="module")
def browser(uid: str) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_the_pointer_shows_the_values_of_all_charts(
    browser: Browser, web_system: WebSystem
) -> None:
    with open_page(browser, web_system, "/status") as page:
        most = page.locator(".most")
        before = most.all_inner_texts()
        chart = page.locator(".chart").nth(3)
        box = chart.bounding_box()
        assert box is not None

        chart.hover(position={"x": box["width"] * (1 - 606 / 1440), "y": 20})

        row = page.locator("#figure-values tr.dead").first
        expect(most.nth(3)).to_contain_text(row.locator("td").nth(3).inner_text())
        assert len(page.locator(".chart .at").all()) == len(before)
        page.mouse.move(0, 0)
        expect(most.first).to_have_text(before[0])


def test_the_axis_has_the_zone_of_the_viewer(browser: Browser, web_system: WebSystem) -> None:
    labels = []
    for zone in ("UTC", "Asia/Kolkata"):
        with open_page(browser, web_system, "/status", timezone_id=zone) as page:
            labels.append(page.locator(".chart").first.locator(".tick").all_text_contents())

    assert [text[3:] for text in labels[0]] == ["00"] * len(labels[0])
    assert [text[3:] for text in labels[1]] == ["30"] * len(labels[1])


@pytest.mark.parametrize("path", ["/", "/status?span=week", "/pipelines/{uid}/figures"])
def test_the_pages_are_read_without_scripts(
    browser: Browser, web_system: WebSystem, uid: str, path: str
) -> None:
    window = {"width": 320, "height": 800}
    address = path.format(uid=uid)
    with open_page(
        browser, web_system, address, java_script_enabled=False, viewport=window
    ) as page:
        expect(page.locator("svg path.line").first).to_be_visible()
        expect(page.locator("main")).to_contain_text("tea" if path == "/" else "What happened")


def test_a_phone_shows_the_charts_without_scrolling(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    for path in ("/", "/status", f"/pipelines/{uid}/figures"):
        window = {"width": 320, "height": 800}
        with open_page(browser, web_system, path, viewport=window) as page:
            assert overflow(page) <= 0


def test_a_new_minute_reaches_the_open_page(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}/figures") as page:
        page.get_by_text("Values as a table").click()
        at = int(time.time()) // 60 * 60 - 60
        file = FiguresFile(web_system.system.root)

        file.add({at: {name: {"seconds": 60.0, "dead": 77.0} for name in (ALL, uid)}})

        expect(page.locator(".events")).to_contain_text("77 dead letters", timeout=90_000)
        expect(page.locator("#figure-values")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/status"])
def test_the_heap_stays_flat_over_200_polls(
    browser: Browser, web_system: WebSystem, path: str
) -> None:
    with open_page(browser, web_system, path) as page:
        page.clock.install()
        wait_for_polls(page, WARM_POLLS)
        before = measure_heap(page)
        wait_for_polls(page, POLLS)
        after = measure_heap(page)

    print(f"heap of {path}: {before:,} bytes, after {POLLS} polls {after:,} bytes")
    assert after <= 1.05 * before


def wait_for_polls(page: Page, count: int) -> None:
    """Advance the clock of the page until it has refreshed itself this many times."""
    for _ in range(count):
        with page.expect_response("**"):
            page.clock.run_for(1000)
        page.wait_for_load_state("networkidle")


def measure_heap(page: Page) -> int:
    """Return the bytes that the scripts of the page use after a garbage collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = int(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return used
