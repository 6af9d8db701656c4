"""Every page of the console in four widths, light and dark: kept as a picture, no wider than the
window, and without a violation that axe-core finds.

With KEEP_SCREENSHOTS, the test writes one picture of each page for docs/console.md. With PICTURES,
the name of a folder, it keeps all of them there.
"""

import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from memrelay.web.console.pages import ALL
from tests.support.axe import find_violations
from tests.support.browser import chromium
from tests.support.console import SCREENSHOTS, open_page, overflow
from tests.support.console_showcase import EMPTY_PAGES, KEY_PAGES, PAGES, fill_showcase
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow

WIDTHS = (320, 768, 1280, 1920)
SCHEMES: tuple[Any, ...] = ("light", "dark")
HEIGHT, MAX_HEIGHT = 800, 4000
# The picture for the documents.
DOCUMENTED = (1280, "light")
PAGES_FOLDER = SCREENSHOTS / "pages"
MAX_BYTES, QUALITY = 60_000, 50


class Shown(NamedTuple):
    """A server with content, the fields of the addresses, and a browser."""

    web_system: WebSystem
    fields: dict[str, str]
    browser: Browser


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Shown, Shown, ApiKey]]:
    """A server with content, one with keys, and the key of its administrator."""
    with WebSystem(WEB__RATE="0") as web_system, WebSystem(worker=False) as closed:
        root = closed.system.root
        key = make_key(root, name="console")
        make_key(root, "read", "search", name="reports", lasts_ms=86_400_000)
        make_key(root, "write", name="old importer", lasts_ms=-1)
        await_closed(closed)
        with chromium() as browser:
            fields = fill_showcase(web_system)
            yield Shown(web_system, fields, browser), Shown(closed, {}, browser), key


@pytest.fixture
def shown(servers: tuple[Shown, Shown, ApiKey]) -> Shown:
    return servers[0]


def capture(page: Page, file: Path, height: int) -> None:
    """Write the upper part of a page as WebP."""
    size = page.viewport_size
    assert size is not None
    clip = {"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1}
    given = {"format": "webp", "quality": QUALITY, "clip": clip, "captureBeyondViewport": True}
    answer = page.context.new_cdp_session(page).send("Page.captureScreenshot", given)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(base64.b64decode(answer["data"]))


def keep(page: Page, name: str, width: int, scheme: str) -> None:
    """Keep a picture where the environment asks for it."""
    is_documented = (width, scheme) == DOCUMENTED and name in {**PAGES, **KEY_PAGES}
    if "KEEP_SCREENSHOTS" in os.environ and is_documented:
        file = PAGES_FOLDER / f"{name}.webp"
        capture(page, file, HEIGHT)
        assert file.stat().st_size <= MAX_BYTES, file
    if folder := os.environ.get("PICTURES"):
        height = page.evaluate("document.documentElement.scrollHeight")
        capture(page, Path(folder) / f"{name}-{width}-{scheme}.webp", min(height, MAX_HEIGHT))


def list_faults(page: Page, name: str) -> list[str]:
    """Return the faults of an open page in all widths and both schemes, and keep its pictures."""
    faults = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.emulate_media(color_scheme=scheme)
            keep(page, name, width, scheme)
            found = find_violations(page)
            if overflow(page) > 0:
                found.append(f"{overflow(page)} px wider than the window")
            faults += [f"{width} px, {scheme}: {one}" for one in found]
    return faults


@contextmanager
def opened(shown: Shown, path: str) -> Iterator[Page]:
    window = {"width": 1280, "height": HEIGHT}
    address = path.format(**shown.fields)
    with open_page(shown.browser, shown.web_system, address, viewport=window) as page:
        expect(page.get_by_text("Loading…")).to_have_count(0)  # the editor is a script
        yield page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_right(shown: Shown, name: str) -> None:
    with opened(shown, PAGES[name]) as page:
        assert list_faults(page, name) == []


@pytest.mark.parametrize("name", EMPTY_PAGES)
def test_a_page_without_content_looks_right(shown: Shown, name: str) -> None:
    with opened(shown, EMPTY_PAGES[name]) as page:
        assert list_faults(page, f"empty-{name}") == []


@pytest.mark.parametrize("name", KEY_PAGES)
def test_a_page_of_a_server_with_keys_looks_right(
    servers: tuple[Shown, Shown, ApiKey], name: str
) -> None:
    _, shown, key = servers
    with opened(shown, "/login") as page:
        if name != "login":
            page.get_by_role("textbox", name="Key").fill(key.text)
            page.get_by_role("button", name="Log in").click()
            page.goto(shown.web_system.url + KEY_PAGES[name])
        assert list_faults(page, name) == []


def test_each_page_has_a_picture_in_the_documents() -> None:
    text = (SCREENSHOTS.parent / "console.md").read_text()
    names = [*PAGES, *KEY_PAGES]

    assert [one for one in names if f"console/pages/{one}.webp" not in text] == []
    assert {file.stem for file in PAGES_FOLDER.iterdir()} == set(names)


def test_each_page_is_in_the_list() -> None:
    """The addresses of the list cover the paths of all pages."""
    addresses = [*PAGES.values(), *KEY_PAGES.values()]
    shapes = {_to_shape(one) for one in addresses}

    assert [page.path for page in ALL if _to_shape(page.path) not in shapes] == []


def _to_shape(path: str) -> tuple[str, ...]:
    """Return the parts of a path, with "*" for its fields."""
    parts = path.partition("?")[0].strip("/").split("/")
    return tuple("*" if one.startswith("{") else one for one in parts)
