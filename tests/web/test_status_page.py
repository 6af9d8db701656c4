"""/status as a page for browsers, and as JSON for programs as before."""

from collections.abc import Iterator

import pytest

from memrelay.web.console.pages.status import prefers_html
from tests.support.http import ask
from tests.support.keys import make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    """Yield a server with a pipeline that no worker serves."""
    with WebSystem(worker=False) as found:
        found.deploy_unserved()
        yield found


@pytest.mark.parametrize(
    ("accept", "is_html"),
    [
        (BROWSER, True),
        ("text/html", True),
        ("text/*", True),
        ("application/json;q=0.5, text/html", True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/json, text/html", False),
        ("application/json, text/html;q=0.9, */*;q=0.1", False),
        ("text/html;q=0, */*", False),
        ("text/html;q=x;q=0.1, application/*;q=0.5", False),
        (";;,,q=", False),
    ],
)
def test_only_a_preference_for_html_selects_the_page(accept: str, is_html: bool) -> None:
    assert prefers_html(accept) is is_html


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/json, text/html"])
def test_programs_get_json(web_system: WebSystem, accept: str | None) -> None:
    answer = ask(web_system.url, "GET", "/status", b"", {"Accept": accept} if accept else {})

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json.keys() == {
        "bus",
        "listeners",
        "durability",
        "storage",
        "workers",
        "pipelines",
    }
    assert "accept" in answer.headers["vary"].lower()


def test_a_browser_gets_the_page_with_a_link_to_the_json(web_system: WebSystem) -> None:
    page = ask(web_system.url, "GET", "/status", b"", {"Accept": BROWSER})
    as_json = ask(web_system.url, "GET", "/status?format=json", b"", {"Accept": BROWSER})
    text = page.body.decode()

    assert page.headers["content-type"].startswith("text/html")
    assert 'href="/status?format=json"' in text and as_json.json["pipelines"]
    assert "No workers are running." in text and "none yet: <code>memrelay backup" in text
    assert "Last 24 hours" in text


def test_a_caller_without_a_key_gets_the_answer_that_suits_it() -> None:
    with WebSystem(worker=False) as web_system:
        mine, other = web_system.deploy_unserved(), web_system.deploy_unserved()
        key = make_key(web_system.system.root, "read", pipelines=(mine,))
        wait_for(lambda: web_system.get("/status").status == 401, "a key is required")
        # The server keeps the status of its start for a second.
        wait_for(
            lambda: (
                mine.encode() in ask(web_system.url, "GET", "/status/parts", b"", key.headers).body
            ),
            "the status has the pipeline",
        )
        to_browser = ask(web_system.url, "GET", "/status", b"", {"Accept": BROWSER})
        page = ask(web_system.url, "GET", "/status", b"", key.headers | {"Accept": BROWSER})
        part = ask(web_system.url, "GET", "/status/parts", b"", key.headers)

        assert web_system.get("/status").problem[0] == 401
        assert (to_browser.status, to_browser.headers["location"]) == (303, "/login?next=/status")
        for answer in (page, part):
            assert mine in answer.body.decode() and other not in answer.body.decode()
            assert b"Disk free" not in answer.body and b"unix:" not in answer.body
