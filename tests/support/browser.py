"""Headless Chromium of the machine, without connections to other hosts.

Playwright keeps an event loop in its thread, so call `asyncio.run` before or after it.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.waiting import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
)


@contextmanager
def chromium(*more: str) -> Iterator[Browser]:
    """Start Chromium with `more` arguments. Skip the test if Chromium is missing; in CI, where
    it must be installed, fail.
    """
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        assert not os.environ.get("CI"), "there is no Chromium; `make chromium` installs it"
        pytest.skip("there is no Chromium; `make chromium` installs it")
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*ARGUMENTS, *more])
        try:
            yield browser
        finally:
            browser.close()
