"""Recorded figures over HTTP: the route, its rights, and the pages with charts."""

import re
import time
from collections.abc import Iterator

import pytest

from memrelay.memory.control.figures_file import FiguresFile
from memrelay.web.figures.differences import ALL
from tests.support.figures import fill_week
from tests.support.http import ask
from tests.support.keys import make_key
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

BROWSER = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    """Return a pipeline with the figures of a week."""
    uid = web_system.deploy_unserved()
    fill_week(web_system.system.root, [uid], time.time())
    return uid


@pytest.mark.slow
def test_the_figures_of_a_day_have_one_value_for_each_minute(
    web_system: WebSystem, uid: str
) -> None:
    found = web_system.get("/v1/figures").json

    assert found["step_s"] == 60 and found["span"] == "day"
    assert {"done", "waiting", "p95_s", "disk_free_bytes"} <= found["figures"].keys()
    assert {len(values) for values in found["figures"].values()} == {len(found["at"])}
    assert 1395 <= len(found["at"]) <= 1442
    assert found["at"] == sorted(found["at"])
    assert found["normal"]["p95_s"] == 0.005
    assert {"backup", "restart", "deploy"} <= {mark["kind"] for mark in found["marks"]}


def test_the_figures_of_a_week_are_those_of_a_pipeline(web_system: WebSystem, uid: str) -> None:
    found = web_system.get(f"/v1/figures?span=week&pipeline={uid}").json

    assert found["step_s"] == 600 and len(found["at"]) > 900
    assert max(found["figures"]["waiting"]) == 1500


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("span=year", 400, "`span` must be day or week"),
        ("pipeline=none", 404, "no active pipeline has the uid"),
        ("until=1", 400, "until"),
    ],
)
def test_a_wrong_parameter_is_refused(
    web_system: WebSystem, query: str, status: int, detail: str
) -> None:
    found_status, found_detail = web_system.get(f"/v1/figures?{query}").problem

    assert found_status == status and detail in found_detail


def test_the_page_shows_the_night(web_system: WebSystem, uid: str) -> None:
    for path in ("/status", f"/pipelines/{uid}/figures"):
        page = ask(web_system.url, "GET", path, b"", BROWSER)
        text = text_of(page)

        assert page.status == 200 and "Last 24 hours" in text
        assert "1,500 messages waiting: many; normal is 3" in text
        assert "A pipeline without a worker for 15 min" in text
        assert "22 dead letters" in text and "the web server was off" in text
        assert "Deploy:" in text and "Backup" in text
        assert page.body.count(b'class="chart"') >= 6
        assert not re.search(rb"\sstyle=", page.body)
        assert len(page.body) < 150_000


def test_a_part_without_a_new_minute_is_not_sent_again(web_system: WebSystem, uid: str) -> None:
    for path in ("/status/figures?span=week", f"/pipelines/{uid}/figures/charts"):
        first = web_system.get(path)

        def is_unchanged(path: str = path, tag: str = first.headers["etag"]) -> bool:
            return web_system.get(path, If_None_Match=tag).status == 304

        # A minute may end between the two requests.
        assert first.status == 200 and (is_unchanged() or web_system.get(path).status == 200)


def test_the_home_page_counts_the_hour_and_the_day(web_system: WebSystem, uid: str) -> None:
    # The status is read again some seconds after the deploy.
    wait_for(lambda: "No worker is running." in text_of(web_system.get("/")), "the need")
    text = text_of(web_system.get("/"))

    assert "22 in 24 hours" in text and "0 in the last hour" in text


def test_a_damaged_file_leaves_the_pages(web_system: WebSystem, uid: str) -> None:
    with WebSystem(worker=False) as other:
        other.deploy_unserved()
        FiguresFile(other.system.root).path.write_bytes(b"damaged" * 1000)

        for path in ("/", "/status"):
            page = ask(other.url, "GET", path, b"", BROWSER)
            assert page.status == 200


def test_a_key_sees_the_figures_of_its_pipelines() -> None:
    with WebSystem(worker=False) as web_system:
        mine, other = web_system.deploy_unserved(), web_system.deploy_unserved()
        at = int(time.time()) // 60 * 60 - 600
        steps = {
            ALL: {"done": 7.0, "disk_free_bytes": 5.0},
            mine: {"done": 2.0},
            other: {"done": 5.0},
        }
        FiguresFile(web_system.system.root).add({at: steps})
        key = make_key(web_system.system.root, "read", pipelines=(mine,))
        writer = make_key(web_system.system.root, "write", pipelines=(mine,))
        wait_for(lambda: web_system.get("/v1/figures").status == 401, "a key is required")

        found = ask(web_system.url, "GET", "/v1/figures", b"", key.headers).json
        hidden = ask(web_system.url, "GET", f"/v1/figures?pipeline={other}", b"", key.headers)
        refused = ask(web_system.url, "GET", "/v1/figures", b"", writer.headers)

        assert sum(found["figures"]["done"]) == 2
        assert "disk_free_bytes" not in found["figures"]
        assert not [mark for mark in found["marks"] if other in mark["subject"]]
        assert (hidden.status, refused.status) == (404, 403)
