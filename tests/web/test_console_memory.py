"""The page Memory as served: lists, filters as links, searches with the parts of each score."""

import html
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import orjson
import pytest

from memrelay.web.console.pages.memory import MemoryView
from memrelay.web.console.search_hits import read_hits
from tests.support.bundles import STORE, Json, make_bundle, make_memory, make_relay, make_uid
from tests.support.http import Answer, ask
from tests.support.pages import deploy_bundle, text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

RECORDS: tuple[Json, ...] = (
    {"content": "green tea", "kind": "note", "tags": ["a&b", "warm"], "scope": "kitchen"},
    {"content": "black tea", "kind": "fact", "owner": "ada", "data": {"price": 3}},
    {"content": "coffee <b>black</b>", "source": "ben", "expires_at": "2090-01-01"},
)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    """A pipeline with three records, the oldest first."""
    found = web_system.deploy(make_relay("find", "^/find (.*)"), make_memory("search"))
    for record in RECORDS:
        assert ask(web_system.url, "POST", f"/v1/pipelines/{found}/records", record).status == 201
    return found


def show(web_system: WebSystem, uid: str, part: str = "", **query: str) -> Answer:
    return web_system.get(f"/pipelines/{uid}/memory{part}?{urlencode(query)}")


def contents(page: Answer) -> list[str]:
    """Return the texts of the listed records."""
    found = re.findall(r'class="content"[^>]*><bdi>(.*?)</bdi>', page.body.decode(), re.DOTALL)
    return [html.unescape(text) for text in found]


def test_the_newest_record_is_first_and_text_is_escaped(web_system: WebSystem, uid: str) -> None:
    page = show(web_system, uid)

    assert contents(page) == ["coffee <b>black</b>", "black tea", "green tea"]
    assert "3 records" in text_of(page) and b"<b>black" not in page.body
    assert contents(show(web_system, uid, order="asc"))[0] == "green tea"


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ({"kind": "note"}, ["green tea"]),
        ({"tag": "a&b"}, ["green tea"]),
        ({"scope": "kitchen", "tag": "warm"}, ["green tea"]),
        ({"owner": "ada"}, ["black tea"]),
        ({"source": "ben"}, ["coffee <b>black</b>"]),
        ({"expires": "1"}, ["coffee <b>black</b>"]),
        ({"filter": '{"data.price": {"gte": 3}}'}, ["black tea"]),
        ({"q": "tea", "mode": "fts", "kind": "note"}, ["green tea"]),
        ({"q": "coffee", "mode": "fts", "source": "ben"}, ["coffee <b>black</b>"]),
        ({"q": "tea", "mode": "fts", "source": "ben"}, []),
    ],
)
def test_filters_narrow_a_list_and_a_search(
    web_system: WebSystem, uid: str, query: dict[str, str], texts: list[str]
) -> None:
    page = show(web_system, uid, **query)

    assert contents(page) == texts
    assert ("No results." in text_of(page)) is (not texts)


def test_each_value_is_a_link_that_narrows_the_list(web_system: WebSystem, uid: str) -> None:
    links = re.findall(r'class="badge[^"]*" href="([^"]+)"', show(web_system, uid).body.decode())

    lists = [contents(web_system.get(html.unescape(link))) for link in links]

    assert all(1 <= len(one) < len(RECORDS) for one in lists)
    assert ["black tea"] in lists and ["green tea"] in lists


def test_a_long_list_has_pages(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    lines = b"\n".join(orjson.dumps({"content": f"n{number:02}"}) for number in range(60))
    for line in lines.split(b"\n"):
        ask(web_system.url, "POST", f"/v1/pipelines/{uid}/records", orjson.loads(line))

    first = show(web_system, uid)
    (link,) = re.findall(r'href="([^"]+)" rel="next"', first.body.decode())
    second = web_system.get(html.unescape(link))

    assert contents(first) + contents(second) == [f"n{number:02}" for number in range(59, -1, -1)]
    assert 'rel="next"' not in second.body.decode() and "First page" in text_of(second)


def test_an_empty_store_and_a_deleted_record(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    assert "No records yet." in text_of(show(web_system, uid))
    guid = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/records", {"content": "x"}).json[
        "guid"
    ]
    ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}/records/{guid}")

    assert contents(show(web_system, uid, deleted="1")) == ["x"]
    assert contents(show(web_system, uid)) == []


def test_the_export_has_the_shown_records(web_system: WebSystem, uid: str) -> None:
    listed = show(web_system, uid, "/export", kind="fact")
    found = show(web_system, uid, "/export", q="coffee", mode="fts")

    assert [orjson.loads(line)["content"] for line in listed.body.splitlines()] == ["black tea"]
    assert [orjson.loads(line)["source"] for line in found.body.splitlines()] == ["ben"]
    assert listed.headers["content-type"].startswith("application/x-ndjson")


def test_the_parts_of_a_score_add_up_to_it(web_system: WebSystem, uid: str) -> None:
    given = {"query": "black tea", "mode": "hybrid", "explain": True}
    output = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/records/search", given).json

    hits = read_hits(output, "hybrid", "black tea")

    assert len(hits.found) >= 2
    for hit in hits.found:
        assert sum(part.score for part in hit.parts) == pytest.approx(hit.score, abs=1e-4)
        assert max(part.x + part.width for part in hit.parts) <= 100.1


def test_a_misspelled_word_has_a_link_to_the_known_one(web_system: WebSystem, uid: str) -> None:
    page = show(web_system, uid, q="cofee", mode="fts")

    (link,) = re.findall(r'Did you mean <a href="([^"]+)">coffee</a>', page.body.decode())

    assert contents(web_system.get(html.unescape(link))) == ["coffee <b>black</b>"]
    assert "No results." in text_of(page)


def test_two_modes_are_shown_side_by_side(web_system: WebSystem, uid: str) -> None:
    page = show(web_system, uid, q="black tea", compare="fts")

    assert page.body.decode().count('aria-label="Hits,') == 2


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({"filter": "{"}, 400, "The filter is not valid JSON"),
        ({"filter": "[1]"}, 400, "The filter must be a JSON object"),
        ({"mode": "best"}, 400, "the modes are fts, hybrid, semantic"),
        ({"filter": '{"kynd": {"eq": 1}}'}, 200, "did you mean 'kind'?"),
        ({"q": "a", "filter": '{"kynd": {"eq": 1}}'}, 200, "did you mean 'kind'?"),
        ({"cursor": "x"}, 200, "`cursor` is invalid"),
        ({"store": "other/store"}, 200, "names no store 'other/store'"),
    ],
)
def test_invalid_parameters_are_explained(
    web_system: WebSystem, uid: str, query: dict[str, str], status: int, text: str
) -> None:
    page = show(web_system, uid, **query)

    assert page.status == status and text in text_of(page)


def test_the_list_is_sent_again_only_after_a_change(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    first = show(web_system, uid, "/rows")
    tag = first.headers["etag"]

    def again() -> Answer:
        return web_system.get(f"/pipelines/{uid}/memory/rows?", If_None_Match=tag)

    assert (again().status, again().body) == (304, b"")
    ask(web_system.url, "POST", f"/v1/pipelines/{uid}/records", {"content": "new"})
    wait_for(lambda: again().status == 200, "the change is seen")
    assert contents(again()) == ["new"]


def test_a_store_of_another_block_can_be_chosen(web_system: WebSystem) -> None:
    notes = "instances/${pipeline_uid}/notes"
    uid = deploy_bundle(
        web_system.url,
        make_bundle(make_uid(), make_memory("write"), make_memory("read", memory_id=notes)),
    )
    path = f"/v1/pipelines/{uid}/records?store=notes"
    ask(web_system.url, "POST", path, {"content": "in notes"})

    page = show(web_system, uid, store=f"instances/{uid}/notes")

    assert contents(page) == ["in notes"]
    assert f'value="{STORE.replace("${pipeline_uid}", uid)}"' in page.body.decode()


def test_a_view_keeps_its_state_in_its_address() -> None:
    view = MemoryView("/m", "s", {"kind": "a b"}, ("x",), query="q")

    assert view.url() == "/m?store=s&kind=a+b&tag=x&q=q"
    assert view.url_with("tag", "y") == "/m?store=s&kind=a+b&tag=x&tag=y&q=q"
    assert view.url_without("kind", "a b") == "/m?store=s&tag=x&q=q"
    assert view.url_without("tag", "x") == "/m?store=s&kind=a+b&q=q"


def test_a_past_time_shows_the_records_of_then_and_says_so(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_relay("find", "^/find (.*)"), make_memory("search"))
    records = f"/v1/pipelines/{uid}/records"
    tea = web_system.post(records, {"content": "green tea"}).json["guid"]
    ask(web_system.url, "DELETE", f"{records}/{tea}")

    page = show(web_system, uid, as_of="n:1")

    assert contents(page) == ["green tea"]
    assert "This list shows the past" in text_of(page)
    assert "as_of=n%3A1" in page.body.decode(), "later pages show the past too"
    assert contents(show(web_system, uid, "/rows", as_of="n:1")) == ["green tea"]
    assert contents(show(web_system, uid)) == []
    assert "This list shows the past" not in text_of(show(web_system, uid))
    assert "the last one is n:2" in text_of(show(web_system, uid, as_of="n:9"))


def test_the_past_of_named_memories_cannot_be_changed(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    api, page = f"/v1/pipelines/{uid}", f"/pipelines/{uid}/memories"
    tea = web_system.post(f"{api}/memories", {"name": "tea"}).json["id"]
    web_system.post(f"{api}/entries", {"memory_id": tea, "content": "Ada likes tea"})
    ask(web_system.url, "PATCH", f"{api}/memories/{tea}", {"name": "drinks"})
    web_system.post(f"{api}/entries", {"memory_id": tea, "content": "Bob likes milk"})

    listed = web_system.get(f"{page}?as_of=n:2")
    shown = web_system.get(f"{page}/{tea}?as_of=n:2")

    assert "tea" in text_of(listed) and "drinks" not in text_of(listed)
    assert "Ada likes tea" in text_of(shown) and "Bob likes milk" not in text_of(shown)
    for past in (listed, shown):
        assert "Nothing can be changed in it" in text_of(past)
        assert "data-call" not in past.body.decode() and "as_of=n%3A2" in past.body.decode()
    for present in (web_system.get(page), web_system.get(f"{page}/{tea}")):
        assert "shows the past" not in text_of(present)
        assert "data-call" in present.body.decode() and "as_of=n" not in present.body.decode()
