"""The diagram in Chromium: it fits, its labels are readable, its nodes are links, it is live."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser import chromium
from tests.support.bundles import Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, send
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem
from tests.web.test_console_browser import lowest_contrast

pytestmark = pytest.mark.slow

SMALLEST_PX = 11
# Every text of the diagram with its size as shown, and whether something is cut off or scrolls.
MEASURE = """() => {
  const graph = document.querySelector(".graph"), svg = graph.querySelector("svg");
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  const box = graph.getBoundingClientRect();
  const shown = [...svg.querySelectorAll("rect, text, path")].map((x) => x.getBoundingClientRect());
  const px = (text) => parseFloat(getComputedStyle(text).fontSize);
  const sizes = [...svg.querySelectorAll("text")].map(px);
  const leaves = (x) => Math.max(x.right - box.right, box.left - x.left, x.bottom - box.bottom) > 1;
  return {
    smallest: scale * Math.min(...sizes),
    clips: shown.some(leaves),
    scrolls: graph.scrollWidth > graph.clientWidth || graph.scrollHeight > graph.clientHeight,
  };
}"""


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return deploy_bundle(web_system.url, make_bundle(make_uid(), *make_chain(7), *make_commands()))


def make_chain(length: int) -> list[Json]:
    """Return agents of which each passes on what the one in front of it says."""
    return [
        make_agent(
            f"link_{number}",
            "regex_filter",
            {"pattern": "^go$"},
            senders=f"link_{number - 1}" if number else "User",
        )
        for number in range(length)
    ]


def viewport(width: int) -> dict[str, dict[str, int]]:
    return {"viewport": {"width": width, "height": 900}}


@pytest.mark.parametrize("width", [1040, 1280, 1600])
def test_a_diagram_fits_and_its_labels_are_readable(
    browser: Browser, web_system: WebSystem, uid: str, width: int
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(width)) as page:
        expect(page.locator(".graph")).to_be_visible()
        measured = page.evaluate(MEASURE)

        assert measured["smallest"] >= SMALLEST_PX
        assert not measured["clips"] and not measured["scrolls"]
        assert overflow(page) <= 0


@pytest.mark.parametrize("width", [320, 900])
def test_only_the_table_is_shown_where_labels_would_be_too_small(
    browser: Browser, web_system: WebSystem, uid: str, width: int
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(width)) as page:
        expect(page.locator(".graph")).to_be_hidden()
        expect(page.locator(".legend")).to_be_hidden()
        page.get_by_text("agents in a table").click()
        expect(page.locator("#agent-link_6_")).to_be_visible()
        assert overflow(page) <= 0


def test_every_diagram_is_hidden_exactly_where_it_is_too_small(
    browser: Browser, web_system: WebSystem
) -> None:
    for length in (1, 2, 3):
        uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_chain(length)))
        with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(1280)) as page:
            assert_hidden_when_too_small(page)


def assert_hidden_when_too_small(page: Page) -> None:
    """Narrow the window until the diagram is hidden; its labels were readable until then."""
    smallest = []
    for width in range(1100, 360, -20):
        page.set_viewport_size({"width": width, "height": 900})
        if not page.locator(".graph").is_visible():
            break
        smallest.append(page.evaluate(MEASURE)["smallest"])
    assert SMALLEST_PX <= smallest[-1] <= SMALLEST_PX + 0.6, smallest


def test_nodes_lead_to_the_table_and_to_logs(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(1280)) as page:
        page.locator(".graph .box", has_text="link_3").click()
        assert page.url.endswith("#agent-link_3_")
        expect(page.locator("#agent-link_3_")).to_be_in_viewport()

        page.locator(".graph .bar").first.click()
        page.wait_for_url(f"**/pipelines/{uid}?swarm=chat#log")
        expect(page.locator("#log")).to_be_in_viewport()


def test_nodes_work_by_keyboard(browser: Browser, web_system: WebSystem, uid: str) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(1280)) as page:
        link = page.get_by_role("link", name="link_3, regex_filter")
        link.focus()
        page.keyboard.press("Enter")

        assert page.url.endswith("#agent-link_3_")


def test_names_with_special_characters_lead_to_their_rows(
    browser: Browser, web_system: WebSystem
) -> None:
    agent = make_agent('a "b" <i> ü%20#/', "add_1", senders="User")
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), agent))

    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(1280)) as page:
        page.locator(".graph .box").click()

        expect(page.locator(".agents tr:target")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_used_edges_become_bold_and_have_counts(
    browser: Browser, web_system: WebSystem, scheme: str
) -> None:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), *make_chain(7)))
    how = viewport(1280) | {"color_scheme": scheme}
    with open_page(browser, web_system, f"/pipelines/{uid}", **how) as page:
        expect(page.locator("#activity .used")).to_have_count(0)
        send(page, "go")

        # Seven to the agents, one to the bar at the right.
        expect(page.locator("#activity .used")).to_have_count(8)
        assert page.locator("#activity .used text").all_text_contents() == ["1"] * 8
        width = "(one) => parseFloat(getComputedStyle(one).strokeWidth)"
        used, plain = page.locator("#activity path").first, page.locator(".graph .edge path").first
        assert used.evaluate(width) > 2 * plain.evaluate(width)
        assert lowest_contrast(page) >= 4.5

        expect(page.locator("#activity .used")).to_have_count(0)


def test_used_edges_lie_on_the_edges_of_the_diagram(
    browser: Browser, web_system: WebSystem, uid: str
) -> None:
    with open_page(browser, web_system, f"/pipelines/{uid}", **viewport(1020)) as page:
        send(page, "/write tea")
        expect(page.locator("#activity svg")).to_be_visible()

        above, below = (
            page.locator(selector).first.bounding_box()
            for selector in ("#activity > svg", ".graph > svg")
        )
        assert above == below
        assert re.search(r"\d", page.locator("#activity").text_content() or "")
