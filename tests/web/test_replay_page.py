"""The page Replay: who may replay, and in Chromium: count, replay, stop and continue."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.support.browser import chromium
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console import open_page, overflow, save_screenshot
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def browser(web_system: WebSystem) -> Iterator[Browser]:
    with chromium() as found:
        yield found


def deploy(web_system: WebSystem, days: float) -> str:
    bundle = make_bundle(make_uid(), *make_commands()) | {"inputs_days": days}
    return deploy_bundle(web_system.url, bundle)


def count_records(web_system: WebSystem, uid: str) -> int:
    return int(web_system.get(f"/v1/pipelines/{uid}/records?limit=1").json["total"])


def test_the_page_says_why_it_has_no_form() -> None:
    with WebSystem() as web_system:
        without, kept = deploy(web_system, 0), deploy(web_system, 7)
        none = web_system.get(f"/pipelines/{without}/replay")
        form = web_system.get(f"/pipelines/{kept}/replay")
        key = make_key(web_system.system.root, "read")
        await_closed(web_system)
        reader = web_system.get(f"/pipelines/{kept}/replay", **key.headers)

    assert "This pipeline keeps no inputs. Set inputs_days" in text_of(none)
    assert "Inputs are kept for 7 days." in text_of(form) and b"<form id=" in form.body
    assert "log in with a key that has the scope admin" in text_of(reader)
    assert b"<form id=" not in none.body + reader.body


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (320, "dark")])
def test_inputs_are_counted_replayed_stopped_and_continued(
    web_system: WebSystem, browser: Browser, width: int, scheme: str
) -> None:
    uid = deploy(web_system, 7)
    for at in range(250):
        web_system.say(uid, {"text": f"/write number {at}"})
    web_system.say(uid, {"text": "/write the last"}, query="?wait=60")
    how = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}

    with open_page(browser, web_system, f"/pipelines/{uid}/replay", **how) as page:
        outcome = page.locator("#replaying")
        page.get_by_label("Filter as JMESPath").fill("text =")
        page.get_by_role("button", name="Count").click()
        expect(outcome).to_contain_text("`filter`")
        page.get_by_label("Filter as JMESPath").fill("contains(text, 'number')")
        page.get_by_role("button", name="Replay").click()
        expect(outcome).to_contain_text("replay them as new inputs")
        assert count_records(web_system, uid) == 251

        page.get_by_label("As new inputs").check()
        page.get_by_role("button", name="Count").click()
        expect(outcome).to_have_text("250 inputs.")
        held = list[Route]()

        def hold(route: Route) -> None:
            """Keep the second page of the replay until it was stopped."""
            body = route.request.post_data_json
            if body.get("dry_run") or not body.get("cursor") or held:
                route.continue_()
            else:
                held.append(route)

        page.route("**/inputs/replay", hold)
        page.get_by_role("button", name="Replay").click()
        expect(outcome).to_contain_text("Replayed 100 of 250.")
        page.get_by_role("button", name="Stop").click()
        held[0].continue_()
        expect(outcome).to_contain_text("Stopped after 200 of 250 inputs.")
        if width > 400:
            save_screenshot(page, "replay")
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) >= 4.5
        page.get_by_role("button", name="Continue").click()
        expect(outcome).to_have_text("Replayed 250 inputs.")
    web_system.system.client.await_quiet(uid)
    assert count_records(web_system, uid) == 501
