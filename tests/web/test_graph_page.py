"""The page Graph: entities and relations to browse, search and edit, as a picture and a list."""

import html
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from memrelay.web.console.entity_layout import HEIGHT, WIDTH, draw, find_distances
from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

HOSTILE = 'a/b?"<script>\u202ex'
ENTITIES = (
    ("Ada", "person", ["lives in Rome", "likes tea"]),
    ("Acme", "company", ["makes anvils"]),
    ("Ben", "person", []),
    (HOSTILE, "<b>", ["<i>x</i>"]),
)
RELATIONS = (
    ("Ada", "Acme", "works at"),
    ("Ben", "Acme", "works at"),
    ("Ben", HOSTILE, "knows"),
)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = deploy(web_system)
    fill(web_system, uid)
    return uid


def deploy(web_system: WebSystem) -> str:
    uid = make_uid()
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands()))
    return uid


def post(web_system: WebSystem, uid: str, path: str, body: Any) -> Answer:
    answer = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/{path}", body)
    assert answer.status < 300, answer
    return answer


def fill(
    web_system: WebSystem, uid: str, entities: Any = ENTITIES, relations: Any = RELATIONS
) -> None:
    """Create entities (name, type, observations) and relations (from, to, type)."""
    names = ("name", "entity_type", "observations")
    body = {"entities": [dict(zip(names, one, strict=True)) for one in entities]}
    post(web_system, uid, "knowledge_graph/create_entities", body)
    names = ("from_entity", "to_entity", "relation_type")
    body = {"relations": [dict(zip(names, one, strict=True)) for one in relations]}
    post(web_system, uid, "knowledge_graph/create_relations", body)


def show(web_system: WebSystem, uid: str, query: str = "", **headers: str) -> Answer:
    """Return the page, once the operations have answered on a busy machine."""
    for _ in range(10):
        answer = ask(web_system.url, "GET", f"/pipelines/{uid}/graph{query}", None, headers)
        if b"No response in time" not in answer.body:
            break
    return answer


def test_the_graph_is_a_picture_with_links_and_a_list(web_system: WebSystem, uid: str) -> None:
    answer = show(web_system, uid)
    text, page = text_of(answer), answer.body.decode()

    assert answer.status == 200 and "4 of 4 entities, 3 relations" in text
    assert page.count('<a class="entity') == 4 and page.count("<line ") == 3
    assert "<b>" not in page and "<i>" not in page and 'b?"<' not in page
    links = [
        html.unescape(one) for one in re.findall(r'<a class="entity[^>]* href="([^"]*)"', page)
    ]
    for link in links:
        assert ask(web_system.url, "GET", link).status == 200


def test_an_entity_has_its_observations_relations_and_neighbors(
    web_system: WebSystem, uid: str
) -> None:
    near = text_of(show(web_system, uid, "?node=Ada"))
    far = text_of(show(web_system, uid, "?node=Ada&depth=2"))

    assert "likes tea" in near and "Relations from it 1 works at Acme" in near
    assert "2 of 4 entities" in near and "3 of 4 entities" in far
    hostile = show(web_system, uid, f"?node={quote(HOSTILE, safe='')}")
    assert "knows Ben" in text_of(hostile) and b"<i>x" not in hostile.body
    missing = text_of(show(web_system, uid, "?node=Nemo"))
    assert "no node 'Nemo'" in missing and "Show the whole graph" in missing


def test_a_search_covers_names_and_observations(web_system: WebSystem, uid: str) -> None:
    assert "Ada person" in text_of(show(web_system, uid, "?q=rome"))
    assert "Acme company" in text_of(show(web_system, uid, "?q=acme"))
    assert "No entity has these words." in text_of(show(web_system, uid, "?q=zebra"))


def test_an_empty_graph_has_an_example_and_a_form(web_system: WebSystem) -> None:
    text = text_of(show(web_system, deploy(web_system)))
    assert "No entities yet." in text and "Ada works at Acme" in text and "New entity" in text


def test_a_recipe_graph_has_the_same_page(web_system: WebSystem, uid: str) -> None:
    post(web_system, uid, "instances", {"sort": "graph", "name": "parts"})
    nodes = [
        {"id": "n1", "name": "Wheel", "kind": "part", "attributes": {"size": 20}},
        {"id": "n2", "name": "Bike", "kind": "product"},
    ]
    graph = ask(web_system.url, "GET", f"/v1/pipelines/{uid}/instances?sort=graph").json
    ident = next(one["id"] for one in graph["items"] if one["name"] == "parts")
    post(web_system, uid, "graph/add_nodes", {"instance": ident, "nodes": nodes})
    edge = {"from_node_id": "n1", "to_node_id": "n2", "kind": "part of"}
    post(web_system, uid, "graph/add_edges", {"instance": ident, "edges": [edge]})

    text = text_of(show(web_system, uid, f"?graph={ident}&node=n1"))
    assert "Wheel" in text and "size 20" in text and "part of n2" in text
    assert "Edit the properties" in text and "New observation" not in text


def test_a_large_graph_shows_300_entities_in_a_bounded_page(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    entities = [(f"entity {number:03}", f"t{number % 9}", []) for number in range(450)]
    names = [one[0] for one in entities]
    pairs = [(names[at], names[at // 2], "in") for at in range(1, 450)]
    fill(web_system, uid, entities, pairs)
    answer = show(web_system, uid)

    assert "300 of 450 entities" in text_of(answer) and "At most 300" in text_of(answer)
    assert len(answer.body) < 300_000
    assert "3 other types" in text_of(answer)


def test_long_names_leave_fewer_entities_in_a_bounded_page(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    entities = [(f"{number:03}" + "\u6f22" * 120, "\u6f22" * 50, []) for number in range(300)]
    names = [one[0] for one in entities]
    pairs = [(names[at], names[to], "in") for at in range(1, 300) for to in range(0, at, 30)]
    fill(web_system, uid, entities, pairs[:500])
    answer = show(web_system, uid)

    assert len(answer.body) < 300_000 and "are shown at once" in text_of(answer)


def test_places_depend_only_on_the_graph_and_are_apart() -> None:
    ids = [f"n{number}" for number in range(300)]
    pairs = [(number, number // 3) for number in range(1, 300)]
    first = draw(ids, ["t"] * 300, pairs)

    assert draw(list(ids), ["t"] * 300, list(pairs)) == first
    assert all(0 < dot.x < WIDTH and 0 < dot.y < HEIGHT for dot in first.dots)
    assert len({(dot.x, dot.y) for dot in first.dots}) > 290
    assert draw([], [], []).dots == [] and len(draw(["x"], ["t"], [(0, 0)]).dots) == 1
    assert find_distances(0, 4, [(0, 1), (2, 1)]) == [0, 1, 2, -1]


def test_a_reader_has_no_forms(web_system: WebSystem, uid: str) -> None:
    reader = make_key(web_system.system.root, "read")
    await_closed(web_system)
    answer = show(web_system, uid, "?node=Ada", Authorization=f"Bearer {reader.text}")

    assert answer.status == 200 and b"data-call" not in answer.body
