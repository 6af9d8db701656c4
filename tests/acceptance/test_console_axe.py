"""Statement 12 of the console: axe-core finds nothing serious on any page, light and dark, on
phones and on wide screens; nothing scrolls horizontally.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.web.console.pages import ALL
from tests.support.axe import find_violations
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.console_content import Opened, open_console

pytestmark = pytest.mark.slow

WIDTHS = (320, 1280, 1600)
SCHEMES = ("light", "dark")


@pytest.fixture(scope="module")
def opened() -> Iterator[Opened]:
    with open_console() as found:
        yield found


def test_each_page_has_an_address(opened: Opened) -> None:
    assert {page.title for page in ALL} <= set(opened.content.addresses)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_has_serious_faults(opened: Opened, width: int, scheme: Any) -> None:
    faults = dict[str, list[str]]()
    for title, path in opened.content.addresses.items():
        window: Any = {"width": width, "height": 900}
        with open_page(
            opened.browser, opened.web_system, path, viewport=window, color_scheme=scheme
        ) as page:
            if (title, width, scheme) == ("Memory", 320, "dark"):
                save_screenshot(page, "phone-dark")
            found = find_violations(page)
            if overflow(page) > 0:
                found.append(f"{overflow(page)} px wider than the window")
        faults |= {title: found} if found else {}

    assert faults == {}
