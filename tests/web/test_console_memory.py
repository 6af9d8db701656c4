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
from tests.support.pages import put, text_of
from tests.support.served import Served
from tests.support.waiting import wait_for

RECORDS: tuple[Json, ...] = (
    {"content": "green tea", "kind": "note", "tags": ["a&b", "warm"], "scope": "kitchen"},
    {"content": "black tea", "kind": "fact", "owner": "ada", "data": {"price": 3}},
    {"content": "coffee <b>black</b>", "source": "ben", "expires_at": "2090-01-01"},
)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served() as found:
        yield found


@pytest.fixture(scope="module")
def uid(served: Served) -> str:
    """A pipeline with three records, the oldest first."""
    found = served.deploy(make_relay("find", "^/find (.*)"), make_memory("search"))
    for record in RECORDS:
        assert ask(served.url, "POST", f"/v1/pipelines/{found}/records", record).status == 201
    return found


def show(served: Served, uid: str, part: str = "", **query: str) -> Answer:
    return served.get(f"/pipelines/{uid}/memory{part}?{urlencode(query)}")


def contents(page: Answer) -> list[str]:
    """Return the texts of the listed records."""
    found = re.findall(r'class="content"[^>]*><bdi>(.*?)</bdi>', page.body.decode(), re.DOTALL)
    return [html.unescape(text) for text in found]


def test_the_newest_record_is_first_and_text_is_escaped(served: Served, uid: str) -> None:
    page = show(served, uid)

    assert contents(page) == ["coffee <b>black</b>", "black tea", "green tea"]
    assert "3 records" in text_of(page) and b"<b>black" not in page.body
    assert contents(show(served, uid, order="asc"))[0] == "green tea"


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
    served: Served, uid: str, query: dict[str, str], texts: list[str]
) -> None:
    page = show(served, uid, **query)

    assert contents(page) == texts
    assert ("No results." in text_of(page)) is (not texts)


def test_each_value_is_a_link_that_narrows_the_list(served: Served, uid: str) -> None:
    links = re.findall(r'class="badge[^"]*" href="([^"]+)"', show(served, uid).body.decode())

    lists = [contents(served.get(html.unescape(link))) for link in links]

    assert all(1 <= len(one) < len(RECORDS) for one in lists)
    assert ["black tea"] in lists and ["green tea"] in lists


def test_a_long_list_has_pages(served: Served) -> None:
    uid = served.deploy()
    lines = b"\n".join(orjson.dumps({"content": f"n{number:02}"}) for number in range(60))
    for line in lines.split(b"\n"):
        ask(served.url, "POST", f"/v1/pipelines/{uid}/records", orjson.loads(line))

    first = show(served, uid)
    (link,) = re.findall(r'href="([^"]+)" rel="next"', first.body.decode())
    second = served.get(html.unescape(link))

    assert contents(first) + contents(second) == [f"n{number:02}" for number in range(59, -1, -1)]
    assert 'rel="next"' not in second.body.decode() and "First page" in text_of(second)


def test_an_empty_store_and_a_deleted_record(served: Served) -> None:
    uid = served.deploy()
    assert "No records yet." in text_of(show(served, uid))
    guid = ask(served.url, "POST", f"/v1/pipelines/{uid}/records", {"content": "x"}).json["guid"]
    ask(served.url, "DELETE", f"/v1/pipelines/{uid}/records/{guid}")

    assert contents(show(served, uid, deleted="1")) == ["x"]
    assert contents(show(served, uid)) == []


def test_the_export_has_the_shown_records(served: Served, uid: str) -> None:
    listed = show(served, uid, "/export", kind="fact")
    found = show(served, uid, "/export", q="coffee", mode="fts")

    assert [orjson.loads(line)["content"] for line in listed.body.splitlines()] == ["black tea"]
    assert [orjson.loads(line)["source"] for line in found.body.splitlines()] == ["ben"]
    assert listed.headers["content-type"].startswith("application/x-ndjson")


def test_the_parts_of_a_score_add_up_to_it(served: Served, uid: str) -> None:
    given = {"query": "black tea", "mode": "hybrid", "explain": True}
    output = ask(served.url, "POST", f"/v1/pipelines/{uid}/records/search", given).json

    hits = read_hits(output, "hybrid", "black tea")

    assert len(hits.found) >= 2
    for hit in hits.found:
        assert sum(part.score for part in hit.parts) == pytest.approx(hit.score, abs=1e-4)
        assert max(part.x + part.width for part in hit.parts) <= 100.1


def test_a_misspelled_word_has_a_link_to_the_known_one(served: Served, uid: str) -> None:
    page = show(served, uid, q="cofee", mode="fts")

    (link,) = re.findall(r'Did you mean <a href="([^"]+)">coffee</a>', page.body.decode())

    assert contents(served.get(html.unescape(link))) == ["coffee <b>black</b>"]
    assert "No results." in text_of(page)


def test_two_modes_are_shown_side_by_side(served: Served, uid: str) -> None:
    page = show(served, uid, q="black tea", compare="fts")

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
    served: Served, uid: str, query: dict[str, str], status: int, text: str
) -> None:
    page = show(served, uid, **query)

    assert page.status == status and text in text_of(page)


def test_the_list_is_sent_again_only_after_a_change(served: Served) -> None:
    uid = served.deploy()
    first = show(served, uid, "/rows")
    tag = first.headers["etag"]

    def again() -> Answer:
        return served.get(f"/pipelines/{uid}/memory/rows?", If_None_Match=tag)

    assert (again().status, again().body) == (304, b"")
    ask(served.url, "POST", f"/v1/pipelines/{uid}/records", {"content": "new"})
    wait_for(lambda: again().status == 200, "the change is seen")
    assert contents(again()) == ["new"]


def test_a_store_of_another_block_can_be_chosen(served: Served) -> None:
    notes = "instances/${pipeline_uid}/notes"
    uid = put(
        served.url,
        make_bundle(make_uid(), make_memory("write"), make_memory("read", memory_id=notes)),
    )
    path = f"/v1/pipelines/{uid}/records?store=notes"
    ask(served.url, "POST", path, {"content": "in notes"})

    page = show(served, uid, store=f"instances/{uid}/notes")

    assert contents(page) == ["in notes"]
    assert f'value="{STORE.replace("${pipeline_uid}", uid)}"' in page.body.decode()


def test_a_view_keeps_its_state_in_its_address() -> None:
    view = MemoryView("/m", "s", {"kind": "a b"}, ("x",), query="q")

    assert view.url() == "/m?store=s&kind=a+b&tag=x&q=q"
    assert view.url_with("tag", "y") == "/m?store=s&kind=a+b&tag=x&tag=y&q=q"
    assert view.url_without("kind", "a b") == "/m?store=s&tag=x&q=q"
    assert view.url_without("tag", "x") == "/m?store=s&kind=a+b&q=q"
