"""The console's pages as served: complete without JavaScript, escaped, with readable errors."""

import hashlib
import re
import shlex
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import pytest

from tests.support.bundles import make_agent, make_bundle, make_commands, make_uid
from tests.support.child import CHECKOUT
from tests.support.client import make_envelope
from tests.support.http import Answer, ask
from tests.support.pages import deploy_bundle, lines_to_try, text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

IDIOMORPH = "idiomorph-0.8.0.min.js"
# The hash of the file published on npm.
IDIOMORPH_SHA256 = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96"
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
SAMPLE = "pipelines/memory_test.json"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def pipeline_page(web_system: WebSystem, uid: str, query: str = "") -> Answer:
    return web_system.get(f"/pipelines/{uid}{query}")


def log_page(web_system: WebSystem, uid: str, swarm: str = "chat") -> Answer:
    return web_system.get(f"/pipelines/{uid}/log?swarm={swarm}")


def assert_is_self_contained(page: Answer) -> None:
    """Assert that a page, by its CSP, uses only this server's scripts and styles."""
    policy = page.headers["content-security-policy"]
    assert (
        "default-src 'self'" in policy
        and "frame-ancestors 'none'" in policy
        and "unsafe" not in policy
    )
    assert (
        page.headers["x-content-type-options"] == "nosniff"
        and page.headers["cache-control"] == "no-store"
    )
    assert not re.search(
        r'<script(?! src="/static/)|<style|\sstyle=|\son\w+=|javascript:|https?://(?!127)',
        page.body.decode(),
    )


def test_the_home_page_links_to_a_single_pipeline() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy(*make_commands(), pipeline_name="tea")
        # The worker reports it a moment after it serves it, and the status is kept for a second.
        wait_for(lambda: "Running" in text_of(web_system.get("/")), "the pipeline runs")

        page = web_system.get("/")

        text = text_of(page)
        assert page.status == 200 and f'href="/pipelines/{uid}"' in page.body.decode()
        assert all(word in text for word in ("tea", uid, "Rate", "Lag", "Dead letters", "Running"))
        assert_is_self_contained(page)


def test_an_unknown_path_is_a_page_in_browsers_and_a_problem_elsewhere(
    web_system: WebSystem,
) -> None:
    paths = ("/nope", "/status/nope", "/v1/pipelines/x/nope", "/api/v1/nope")

    shown = [
        ask(
            web_system.url,
            "GET",
            path,
            b"",
            {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"},
        )
        for path in paths
    ]

    for page in shown:
        assert page.status == 404 and "There is no page at this address. All pipelines" in text_of(
            page
        )
        assert_is_self_contained(page)
    for path in paths[:3]:
        assert ask(web_system.url, "GET", path, b"", {"Accept": "*/*"}).problem == (
            404,
            "no such path; docs/http.md lists all paths",
        )
    assert (
        ask(web_system.url, "GET", "/v1/pipelines/nope", b"", {"Accept": "text/html"}).problem[0]
        == 404
    )


def test_an_empty_overview_shows_how_to_deploy() -> None:
    with WebSystem() as web_system:
        page = web_system.get("/pipelines")

        assert page.status == 200
        assert f"memrelay deploy {SAMPLE}" in text_of(page) and (CHECKOUT / SAMPLE).exists()


def test_a_pipeline_page_shows_stats_diagram_table_and_log(web_system: WebSystem) -> None:
    uid = web_system.deploy(
        *make_commands(), pipeline_name="tea", pipeline_desc="Where tea is kept."
    )
    web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

    page = pipeline_page(web_system, uid)

    text = text_of(page)
    assert page.status == 200
    assert all(
        phrase in text
        for phrase in ("Where tea is kept.", "/write tea", "memory_write", "Worker", "Accepts from")
    )
    assert "memory_write listens to dispatch_write on chat." in text


def test_the_example_commands_work(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    say, last, *_, publish, add = map(shlex.split, lines_to_try(pipeline_page(web_system, uid)))

    answer = ask(web_system.url, "POST", say[1].removeprefix(web_system.url), say[3])
    for words in (publish, add):
        assert words[:3] == ["redis-cli", "-s", str(web_system.system.client.socket)]
        web_system.system.client.redis.execute_command(*words[3:])
    web_system.system.client.await_quiet(uid)

    assert answer.status == 200
    log = ask(
        web_system.url, "GET", last[1].removeprefix(web_system.url).replace("limit=5", "limit=50")
    ).json["items"]
    texts = [
        item["message"]["args"][0]["text"] for item in log if item["message"]["from"] == "User"
    ]
    assert sorted(texts) == [
        "/read",
        "/write The meeting is at 3pm",
        "/write The meeting is at 3pm",
    ]


def test_the_example_of_the_sample_notes_gets_an_answer(web_system: WebSystem) -> None:
    sample = orjson.loads((CHECKOUT / "pipelines" / "notes.json").read_bytes())
    uid = web_system.deploy(*sample["agents"])

    curl, _, say, *_ = map(shlex.split, lines_to_try(pipeline_page(web_system, uid)))

    assert say[1:3] == ["say", uid] and say[3] == orjson.loads(curl[3])["text"]
    answer = ask(web_system.url, "POST", curl[1].removeprefix(web_system.url), curl[3])
    assert answer.status == 200
    (result,) = answer.json["results"]
    listing = {"value": {"entries": [], "keys": [], "cursor": None}, "is_error": False}
    assert orjson.loads(result["args"][0]["text"]) == listing


def test_names_with_shell_syntax_are_quoted_in_examples(web_system: WebSystem) -> None:
    swarm = 'a\'b "c" $(d)/é'
    uid = web_system.deploy(make_agent("x", "add_1", on=swarm, to=""))

    curl, *_, publish, _ = map(shlex.split, lines_to_try(pipeline_page(web_system, uid)))

    assert urlsplit(curl[1]).netloc == urlsplit(web_system.url).netloc
    assert ask(web_system.url, "POST", curl[1].removeprefix(web_system.url), curl[3]).status == 200
    assert publish[4] == f"swarm:{{{uid}}}:{swarm}"


def test_names_and_messages_are_escaped(web_system: WebSystem) -> None:
    agent = make_agent(HOSTILE, "add_1", senders=[HOSTILE], on=HOSTILE, to=HOSTILE)
    uid = web_system.deploy(agent, pipeline_name=HOSTILE, pipeline_desc=HOSTILE)
    web_system.system.client.enter(uid, HOSTILE, sender=HOSTILE, swarm=HOSTILE)
    web_system.system.client.await_quiet(uid)

    pages = [
        web_system.get("/"),
        pipeline_page(web_system, uid),
        web_system.get(f"/pipelines/{uid}/stats"),
        web_system.get("/fragments/overview"),
    ]

    for page in pages:
        assert page.status == 200
        assert b"<script>" not in page.body and b"<img src=x" not in page.body
    assert HOSTILE in text_of(pages[1])


@pytest.mark.parametrize(
    "data", [b'{"args": []}', b'{"text": "<b>"}', b'{"from": "", "args": [{"text": ""}, 1, null]}']
)
def test_the_log_shows_malformed_messages(web_system: WebSystem, data: bytes) -> None:
    uid = web_system.deploy()
    web_system.system.client.redis.xadd(f"swarm:{{{uid}}}:chat", {"mid": "x", "data": data})

    page = log_page(web_system, uid)

    assert page.status == 200 and page.body.count(b"<li>") == 1
    assert b"<b>" not in page.body


def test_the_log_shows_a_bounded_number_of_messages_newest_first(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    web_system.system.client.enter_together(uid, [f"number {number}" for number in range(70)])
    web_system.system.client.await_quiet(uid)
    web_system.system.client.redis.xadd(
        f"swarm:{{{uid}}}:chat", {"mid": "x", "data": make_envelope("long " * 10_000)}
    )

    page = log_page(web_system, uid)

    assert page.body.count(b"<li>") == 50 and len(page.body) < 20_000
    assert page.body.index(b"long ") < page.body.index(b"number 69") < page.body.index(b"number 21")
    assert "and 49,600 more characters" in text_of(page) and b"number 20<" not in page.body


@pytest.mark.parametrize("count", [0, 1, 60])
def test_pipelines_of_any_size_have_a_page(web_system: WebSystem, count: int) -> None:
    agents = [
        make_agent(f"agent_{number}", "add_1", senders=f"agent_{number * 7 % 60}")
        for number in range(count)
    ]
    uid = deploy_bundle(web_system.url, make_bundle(make_uid()) | {"agents": agents})

    page = pipeline_page(web_system, uid)

    assert page.status == 200 and page.body.count(b'<a class="box') == count
    assert ("This pipeline has no agents." in text_of(page)) == (count == 0)


def test_the_overview_of_several_pipelines_is_one_table(web_system: WebSystem) -> None:
    uids = [web_system.deploy(*make_commands()) for _ in range(2)]

    def find_row() -> str | None:
        page = web_system.get("/pipelines")
        assert page.body.count(b"<table") == 1 and b"<svg width" not in page.body
        assert b'id="send"' not in page.body
        rows = re.findall(r"<tr data-row>.*?</tr>", page.body.decode(), re.DOTALL)
        return next((row for row in rows if uids[0] in row and "Running" in row), None)

    row = wait_for(find_row, "the pipeline is running")
    assert '<td data-label="Agents" class="n">10</td>' in row
    assert f'href="/dead-letters?pipeline={uids[0]}"' in row


def test_the_second_page_lists_the_remaining_pipelines() -> None:
    with WebSystem(worker=False) as web_system:
        uids = [
            deploy_bundle(
                web_system.url, make_bundle(f"p{number:03}", name=f"pipeline {number:03}")
            )
            for number in range(23)
        ]
        wait_for(
            lambda: b"p022" in web_system.get("/pipelines?page=2").body, "the last one is listed"
        )

        pages = [
            web_system.get("/pipelines"),
            web_system.get("/pipelines?page=2"),
            web_system.get("/pipelines?page=99"),
            web_system.get("/pipelines?page=%E2%91%A0"),
        ]

        rows = [re.findall(r'id="to-(\w+)"', page.body.decode()) for page in pages]
        assert rows == [uids[:20], uids[20:], uids[20:], uids[:20]]
        assert b"/pipelines?page=2" in pages[0].body and b"/pipelines?page=1" in pages[1].body


def test_a_missing_worker_and_a_volatile_bus_are_warnings() -> None:
    with WebSystem(worker=False) as web_system:
        uid = deploy_bundle(web_system.url, make_bundle(make_uid()))
        web_system.system.client.redis.config_set("appendonly", "no")

        for page in (pipeline_page(web_system, uid), web_system.get("/")):
            assert "No worker is running. Messages wait on the bus until one starts" in text_of(
                page
            )
            assert "NOT PERSISTENT" in text_of(page)


@pytest.mark.parametrize(
    "path", ["/pipelines/nothing", "/pipelines/%3Cscript%3E", "/pipelines/{uid}?swarm=nothing"]
)
def test_an_unknown_pipeline_or_swarm_has_an_error_page(web_system: WebSystem, path: str) -> None:
    uid = web_system.deploy()

    page = web_system.get(path.format(uid=uid))

    assert page.status == 404 and b"<script>" not in page.body
    assert "Not found" in text_of(page) and "All pipelines" in text_of(page)


@pytest.mark.parametrize(
    "path", ["/nothing", "/static/nothing.js", "/static/..%2fpages.py", "/pipelines/nothing/stats"]
)
def test_fragments_answer_errors_with_problem_json(web_system: WebSystem, path: str) -> None:
    status, detail = web_system.get(path).problem

    assert status == 404 and detail


def test_a_page_reports_a_lost_bus_and_recovers_with_it() -> None:
    with WebSystem() as web_system:
        uid = web_system.deploy(pipeline_name="tea")
        web_system.system.server.stop(grace_s=5)

        away = wait_for(
            lambda: _if_status(web_system.get("/"), 503), "the page reports the lost bus"
        )
        for page in (away, pipeline_page(web_system, uid)):
            assert page.status == 503 and page.headers["retry-after"] == "1"
            assert (
                "The bus does not respond" in text_of(page) and b'http-equiv="refresh"' in page.body
            )
        assert web_system.get(f"/pipelines/{uid}/stats").problem[0] == 503

        web_system.system.server.start()
        wait_for(lambda: _if_status(pipeline_page(web_system, uid), 200), "the page recovers")


def test_an_open_page_reports_a_new_version(web_system: WebSystem) -> None:
    uid = web_system.deploy(pipeline_name="first")
    url = re.search(
        rf'data-refresh="(/pipelines/{uid}/notices\?seen=\w+)"',
        pipeline_page(web_system, uid).body.decode(),
    )
    assert url is not None
    before = text_of(web_system.get(url[1]))

    deploy_bundle(web_system.url, make_bundle(uid, name="second"))

    assert "newer version" not in before
    assert "A newer version is deployed. Reload" in text_of(web_system.get(url[1]))


def test_no_page_has_inline_scripts_or_styles(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    for page in (pipeline_page(web_system, uid), web_system.get("/pipelines/nothing")):
        assert_is_self_contained(page)


def test_static_files_are_cached_until_they_change(web_system: WebSystem) -> None:
    page = pipeline_page(web_system, web_system.deploy()).body.decode()
    urls = sorted(set(re.findall(r'"(/static/[^"#]+)["#]', page)))

    for url in urls:
        found = web_system.get(url)
        assert found.status == 200 and "immutable" in found.headers["cache-control"]
        again = web_system.get(url, If_None_Match=found.headers["etag"])
        assert (again.status, again.body) == (304, b"")
        assert web_system.get(url.partition("?")[0]).headers["cache-control"] == "no-cache"
    assert len(urls) >= 12


def test_idiomorph_is_the_published_file_with_its_license(web_system: WebSystem) -> None:
    script = web_system.get(f"/static/{IDIOMORPH}")

    license_text = web_system.get(f"/static/{IDIOMORPH.removesuffix('.min.js')}.license.txt")

    assert hashlib.sha256(script.body).hexdigest() == IDIOMORPH_SHA256
    assert license_text.body.startswith(b"Zero-Clause BSD")


def _if_status(answer: Answer, status: int) -> Answer | None:
    return answer if answer.status == status else None
