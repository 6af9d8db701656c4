"""Declared views: what they show, and that they equal a recomputation after any change."""

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.as_of import take_back
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.models.views.table import declare_views
from memrelay.memory.transfer.salvage import salvage_into
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform
from tests.memory.models.views.recomputation import (
    VIEWS,
    assert_equal,
    change_at_random,
    define_all,
    make_fields,
)

LATEST = {"name": "latest", "per": "owner", "show": {"latest": "key"}}
OPEN = {
    "name": "open",
    "match": {"pattern": r"(?i)\bI will\b"},
    "per": "owner",
    "show": {"top": {"by": "created_at", "order": "asc"}},
}
COUNT = {"name": "count", "show": "count"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def call(store: Store, name: str, /, **given: Any) -> Any:
    with store.transaction() as tx:
        return perform(tx, name, **given)


def shown(store: Store, name: str, of: str = "", **given: Any) -> list[str]:
    return [one.content for one in call(store, "views.get", id=name, of=of, **given).items]


def create(store: Store, content: str, **given: Any) -> str:
    guid: str = call(store, "records.create", content=content, **{"owner": "Ada"} | given).guid
    return guid


def test_latest_shows_the_newest_record_of_each_key(store: Store) -> None:
    call(store, "views.define", view=LATEST)
    create(store, "Paris", key="city")
    create(store, "fish", key="food")
    rome = create(store, "Rome", key="city")
    create(store, "Oslo", key="city", owner="Ben")

    assert shown(store, "latest", "Ada") == ["Rome", "fish"]
    assert call(store, "views.get", id="latest", of="Ada").count == 3
    call(store, "records.delete", guid=rome)
    assert shown(store, "latest", "Ada") == ["Paris", "fish"]
    assert shown(store, "latest", "Ada", limit=1) == ["Paris"]
    assert call(store, "views.get", id="latest", of="Ada", limit=1).has_more
    assert shown(store, "latest", "ada") == []


def test_top_shows_open_commitments_in_their_order(store: Store) -> None:
    call(store, "views.define", view=OPEN)
    first = create(store, "I will call Ben", now_ms=NOW)
    create(store, "Ben called", now_ms=NOW + 1)
    create(store, "i will write", now_ms=NOW + 2)

    assert shown(store, "open", "Ada") == ["I will call Ben", "i will write"]
    call(store, "records.update", guid=first, content="I called Ben")
    assert shown(store, "open", "Ada") == ["i will write"]


def test_a_read_sees_the_writes_of_its_transaction(store: Store) -> None:
    call(store, "views.define", view=COUNT)
    with store.transaction() as tx:
        perform(tx, "records.create", content="tea")
        assert perform(tx, "views.get", id="count").count == 1
        perform(tx, "records.create", content="tea")
        assert perform(tx, "views.get", id="count").count == 2
    assert call(store, "views.get", id="count").count == 2


def test_a_view_that_is_defined_after_writes_of_its_transaction_has_them(store: Store) -> None:
    with store.transaction() as tx:
        perform(tx, "records.create", content="tea")
        perform(tx, "views.define", view=COUNT)
        perform(tx, "records.create", content="tea")
        perform(tx, "views.define", view=COUNT | {"name": "second"})
        perform(tx, "records.create", content="tea")
    assert [call(store, "views.get", id=one).count for one in ("count", "second")] == [3, 3]


def test_about_returns_what_each_view_has_of_a_person(store: Store) -> None:
    for view in (LATEST, OPEN, COUNT):
        call(store, "views.define", view=view)
    create(store, "I will move to Rome", key="city")
    create(store, "Oslo", key="city", owner="Ben")

    about = call(store, "views.about", of="Ada")

    assert [(one.name, one.count, len(one.items)) for one in about.views] == [
        ("latest", 1, 1),
        ("open", 1, 1),
    ]
    assert call(store, "views.about", of="Cy").views == ()
    small = call(store, "views.about", of="Ada", result_bytes=100)
    assert [(one.count, one.has_more) for one in small.views] == [(1, True), (1, True)]


def test_parts_are_listed_in_pages(store: Store) -> None:
    call(store, "views.define", view=LATEST)
    for name in ("Ada", "Adam", "Ben", "Çelik"):
        create(store, "x", key="k", owner=name)

    page = call(store, "views.parts", id="latest", limit=2)

    assert [one.of for one in page.items] == ["Ada", "Adam"] and page.next_cursor == "Adam"
    rest = call(store, "views.parts", id="latest", cursor=page.next_cursor)
    assert [one.of for one in rest.items] == ["Ben", "Çelik"] and rest.next_cursor is None
    some = call(store, "views.parts", id="latest", beginning="Ad")
    assert [(one.of, one.count) for one in some.items] == [("Ada", 1), ("Adam", 1)]


@pytest.mark.parametrize("value", ["x" * 513, "\0" + "x" * 60_000], ids=["long", "nul"])
def test_records_with_long_values_are_left_out(store: Store, value: str) -> None:
    by = "data.a"
    views: list[dict[str, Any]] = [
        {"name": "parts", "per": by, "show": "count"},
        {"name": "latest", "show": {"latest": by}},
        {"name": "top", "show": {"top": {"by": by}}},
    ]
    for view in views:
        call(store, "views.define", view=view)
    create(store, "long", data={"a": value})
    create(store, "short", data={"a": "x" * 512})

    assert [one.count for one in call(store, "views.parts", id="parts").items] == [1]
    assert shown(store, "latest") == shown(store, "top") == ["short"]


def test_expired_records_are_not_shown(store: Store) -> None:
    call(store, "views.define", view=LATEST)
    create(store, "Paris", key="city")
    create(store, "Rome", key="city", expires_at="2023-11-14T22:14:00Z")

    assert shown(store, "latest", "Ada") == ["Rome"]
    assert shown(store, "latest", "Ada", now_ms=NOW + 60_000) == ["Paris"]
    with store.transaction() as tx:
        tx.records.set_actor(NOW + 60_000, "owner")
        assert tx.records.delete_expired(NOW + 60_000, 10) == 1
    assert call(store, "views.get", id="latest", of="Ada", now_ms=NOW + 60_000).count == 1


def test_a_rollback_takes_members_back(store: Store) -> None:
    call(store, "views.define", view=COUNT)
    with suppress(RuntimeError), store.transaction() as tx:
        perform(tx, "records.create", content="tea")
        perform(tx, "views.get", id="count")
        perform(tx, "views.define", view=LATEST)
        raise RuntimeError
    create(store, "tea")

    assert call(store, "views.get", id="count").count == 1
    assert [one.name for one in call(store, "views.list").items] == ["count"]


@pytest.mark.parametrize("seed", range(3))
def test_views_equal_a_recomputation_after_random_changes(tmp_path: Path, seed: int) -> None:
    store, rng, at = make_store(tmp_path), random.Random(seed), 0
    with store.transaction() as tx:
        for _ in range(20):
            perform(tx, "records.create", **make_fields(rng))
    define_all(store)
    for _ in range(40):
        with suppress(RuntimeError), store.transaction() as tx:
            for _ in range(rng.randrange(1, 8)):
                at += 1
                change_at_random(tx, rng, at)
            if rng.random() < 0.2:
                raise RuntimeError
        if rng.random() < 0.1:
            store.close()
            store = make_store(tmp_path)
        assert_equal(store)
    store.close()


def test_a_bundle_declares_views(store: Store) -> None:
    create(store, "Paris", key="city")
    declare_views(store, "p1", [LATEST, COUNT], NOW)
    assert shown(store, "latest", "Ada") == ["Paris"]
    with pytest.raises(Refused, match="bundle of pipeline p1"):
        call(store, "views.define", view=LATEST)
    with pytest.raises(Refused, match="bundle of pipeline p1"):
        call(store, "views.delete", id="latest")

    declare_views(store, "p1", [LATEST | {"per": "source"}], NOW)

    assert shown(store, "latest", "tester") == ["Paris"]
    with pytest.raises(RecordNotFound):
        call(store, "views.get", id="count")
    declare_views(store, "p1", [], NOW)
    assert not store.has_feature("views")
    assert store.connection.execute("SELECT count(*) FROM view_members").get == 0


def test_a_copy_that_is_taken_back_shows_the_past(store: Store, tmp_path: Path) -> None:
    call(store, "views.define", view=LATEST)
    create(store, "Paris", key="city")
    then, _ = store.extent
    create(store, "Rome", key="city")
    copy_database(Path(store.path), tmp_path / "copy.db")

    with closing(Store(MEMORY_ID, tmp_path / "copy.db")) as copy:
        take_back(copy, then)
        assert shown(copy, "latest", "Ada") == ["Paris"]
    assert shown(store, "latest", "Ada") == ["Rome"]


def test_a_salvaged_file_computes_its_views_again(store: Store, tmp_path: Path) -> None:
    call(store, "views.define", view=LATEST)
    create(store, "Paris", key="city")
    store.close()

    salvage_into(tmp_path / "new.db", Path(store.path))

    with closing(Store(MEMORY_ID, tmp_path / "new.db")) as new:
        assert shown(new, "latest", "Ada") == ["Paris"]


@pytest.mark.parametrize(
    ("view", "place"),
    [
        ({"show": "count"}, "name"),
        ({"name": "a"}, "show"),
        ({"name": "a", "show": {"top": {"by": "content"}}}, "show.top.by"),
        ({"name": "a", "show": {"top": {"orders": "asc"}}}, "show.top.orders"),
        ({"name": "a", "show": {"latest": "tags"}}, "show.latest"),
        ({"name": "a", "show": "count", "per": "data"}, "per"),
        ({"name": "a", "show": "count", "per": "ownr"}, "did you mean 'owner'"),
        ({"name": "a", "show": "count", "match": {"pattern": "("}}, "match.pattern"),
        ({"name": "a", "show": "count", "match": {"filter": {"x": {"eq": 1}}}}, "match.filter"),
        ({"name": "a", "show": "count", "where": {}}, "where"),
        ({"name": "a", "show": "count", "match": []}, "match"),
    ],
)
def test_an_invalid_view_names_the_place(store: Store, view: Any, place: str) -> None:
    with pytest.raises(ValidationError) as error:
        call(store, "views.define", view=view)
    assert place in str(error.value), error.value


@pytest.mark.parametrize("view", ["[1]", "7", "null", '{"name": "b", "show": "count"}', "{}"])
def test_an_import_refuses_a_line_that_is_no_view(store: Store, view: str) -> None:
    line = {"declared_view": {"name": "a", "view": view, "changed_at": NOW}}
    with pytest.raises(Refused, match="invalid line of an export"):
        call(store, "records.import", lines=[orjson.dumps(line).decode()])
    assert call(store, "views.list").items == ()


def test_reads_name_what_is_missing(store: Store) -> None:
    call(store, "views.define", view=LATEST)
    call(store, "views.define", view=COUNT)
    with pytest.raises(Refused, match=r"views\.parts"):
        call(store, "views.get", id="latest")
    with pytest.raises(Refused, match="leave `of` out"):
        call(store, "views.get", id="count", of="Ada")
    with pytest.raises(RecordNotFound, match=r"views\.list"):
        call(store, "views.get", id="none")
    with pytest.raises(RecordNotFound, match=r"views\.list"):
        call(store, "views.delete", id="none")
    for number in range(18):
        call(store, "views.define", view=COUNT | {"name": f"v{number}"})
    with pytest.raises(Refused, match="at most 20"):
        call(store, "views.define", view=COUNT | {"name": "one more"})


def test_all_views_of_the_recomputation_are_valid(store: Store) -> None:
    define_all(store)
    assert [one.name for one in call(store, "views.list").items] == sorted(
        str(view["name"]) for view in VIEWS
    )
