"""From `expires_at` on, no read returns a record, whether it has been deleted or not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.filter_sql import MAX_EXPIRED_BYTES
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.retention import MAX_PER_STEP, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import LAST_MS, format_time
from memrelay.memory.errors import RecordNotFound, Refused
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.explanation import Explanation
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import (
    MEMORY_ID,
    NOW,
    assert_sound,
    contents,
    find,
    make_record,
    make_store,
    perform_at,
    read_all,
    write_all,
)
from tests.memory.search.embedding.embedders import embed_all

END = NOW + 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()
    assert_sound(store.path)


def test_an_expired_record_cannot_be_read_or_changed(store: Store) -> None:
    guid = perform_at(
        store, NOW, "records.create", content="green tea", expires_at=format_time(END)
    ).guid
    write_all(store, "more tea")

    for now_ms, there in ((END - 1, 1), (END, 0)):
        store.records.set_actor(now_ms, "tester")
        assert perform_at(store, now_ms, "records.list").total == 1 + there
        assert (
            len(perform_at(store, now_ms, "records.list", order="desc", limit=1000).items)
            == 1 + there
        )
        assert (
            len(read_all(store))
            == len(perform_at(store, now_ms, "records.search", query="tea").items)
            == 1 + there
        )
        assert (
            len(perform_at(store, now_ms, "records.search", query="green", mode="hybrid").items)
            == there
        )
        assert len(find(store, "-more kind:observation")) == there
        assert len(find(store, "gre*")) == there
    for name, given in (
        ("get", {}),
        ("update", {"content": "x"}),
        ("update", {"expires_at": ""}),
        ("append", {"content": "x"}),
        ("delete", {}),
        ("history", {}),
        ("restore", {"number": 1}),
    ):
        with pytest.raises(RecordNotFound):
            perform_at(store, END, f"records.{name}", guid=guid, **given)
    with store.transaction() as tx:
        assert delete(tx, DeleteInput(guid=guid)) == 0
        assert append(tx, AppendInput(make_record("x"), guid, {}))[1] is False
        assert delete(tx, DeleteInput(kind="observation")) == 2


def explain_at(store: Store, now_ms: int, query: str, mode: str) -> Explanation:
    found = perform_at(store, now_ms, "records.search", query=query, mode=mode, explain=True)
    return found.explanation  # type: ignore[no-any-return]


def test_a_word_only_in_expired_records_is_not_suggested(store: Store) -> None:
    perform_at(store, NOW, "records.create", content="secret secret", expires_at=format_time(END))
    perform_at(store, NOW, "records.create", content="secret sacred", expires_at=format_time(END))
    perform_at(store, NOW, "records.create", content="secrets")

    explained = [explain_at(store, now_ms, "sacret", "fts") for now_ms in (END - 1, END)]

    assert [one.terms[0].suggestion for one in explained] == ["secret", None]


def test_a_word_only_in_expired_records_is_not_a_correction(store: Store) -> None:
    perform_at(store, NOW, "records.create", content="zorblax", expires_at=format_time(END))
    perform_at(store, NOW, "records.create", content="tea")

    explained = [explain_at(store, now_ms, "zorblay", "hybrid") for now_ms in (END - 1, END)]

    assert [one.terms[0].spellings for one in explained] == [("zorblax",), ()]


def test_the_expiry_time_is_returned_and_can_be_changed(store: Store) -> None:
    made = perform_at(store, NOW, "records.create", content="tea", expires_at="2100-01-01")
    sooner = perform_at(store, NOW, "records.update", guid=made.guid, expires_at="4102444800001")
    never = perform_at(store, NOW, "records.update", guid=made.guid, expires_at="")

    assert [one.expires_at for one in (made, sooner, never)] == [
        "2100-01-01T00:00:00.000Z",
        "2100-01-01T00:00:00.001Z",
        None,
    ]
    assert never == perform_at(store, LAST_MS, "records.get", guid=made.guid)
    assert perform_at(store, NOW, "records.history", guid=made.guid).items[1].record == sooner


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tomorrow", "is a time like"),
        ("2100-02-30", "is a time like"),
        (str(LAST_MS + 1), "up to the year 9999"),
        (str(NOW), "in the past"),
        ("1970-01-01", "in the past"),
    ],
)
def test_an_invalid_or_past_expiry_time_is_rejected(store: Store, text: str, message: str) -> None:
    guid = perform_at(store, NOW, "records.create", content="tea").guid

    for name, given in (("create", {"content": "x"}), ("update", {"guid": guid})):
        with pytest.raises(Refused, match=message):
            perform_at(store, NOW, f"records.{name}", expires_at=text, **given)
    assert perform_at(store, NOW, "records.list").total == 1


def test_an_expired_turn_does_not_raise_its_neighbors(store: Store) -> None:
    with store.transaction() as tx:
        for content, end in (
            ("where is the stadium", None),
            ("it is near the harbour", END),
            ("thank you so much", None),
        ):
            write(tx, make_record(content, thread="t", expires_at=end))
    found = {
        now_ms: contents(
            [
                hit.record
                for hit in perform_at(
                    store, now_ms, "records.search", query="harbour", mode="hybrid"
                ).items
            ]
        )
        for now_ms in (END - 1, END)
    }

    assert len(found[END - 1]) == 3
    assert found[END] == []
    delete_expired(store, END, 90)
    assert [
        hit.record.content
        for hit in perform_at(store, END, "records.search", query="stadium", mode="hybrid").items
    ] == ["where is the stadium", "thank you so much"]


@pytest.mark.parametrize("budget", [1 << 20, 0])
def test_an_expired_record_is_not_found_by_meaning(tmp_path: Path, budget: int) -> None:
    lazy = LazyEmbedder(EmbeddingOptions("local"))
    lazy.get()
    store = Store(
        MEMORY_ID,
        store_path(tmp_path, MEMORY_ID),
        meaning=SemanticResources(QuestionEmbedder(lazy), Pool(budget)),
    )
    perform_at(
        store, NOW, "records.create", content="my cat sleeps all day", expires_at=format_time(END)
    )
    write_all(store, "the tea is cold")
    embed_all(store, lazy.get())

    for mode in ("semantic", "hybrid"):
        first, second = (
            perform_at(
                store, now_ms, "records.search", query="a kitten takes naps", mode=mode, limit=1
            ).items
            for now_ms in (END - 1, END)
        )
        assert [hit.record.content for hit in first] == ["my cat sleeps all day"]
        assert "my cat sleeps all day" not in [hit.record.content for hit in second]
    store.close()


def test_a_deleted_record_cannot_be_restored_after_it_expires(store: Store) -> None:
    guid = perform_at(store, NOW, "records.create", content="tea", expires_at=format_time(END)).guid
    perform_at(store, NOW, "records.delete", guid=guid)

    assert perform_at(store, END - 1, "records.list", deleted=True).total == 1
    assert perform_at(store, END, "records.list", deleted=True).total == 0
    with pytest.raises(RecordNotFound, match="has expired"):
        perform_at(store, END, "records.restore", guid=guid)
    assert perform_at(store, END - 1, "records.restore", guid=guid).expires_at == format_time(END)


def test_expired_records_and_their_history_are_deleted_in_batches(store: Store) -> None:
    guid = perform_at(store, NOW, "records.create", content="tea", expires_at=format_time(END)).guid
    perform_at(store, NOW, "records.update", guid=guid, content="coffee")
    deleted = perform_at(
        store, NOW, "records.create", content="secret", expires_at=format_time(END + 5)
    ).guid
    perform_at(store, NOW, "records.delete", guid=deleted)
    with store.transaction() as tx:
        for _ in range(MAX_PER_STEP):
            write(tx, make_record("x", expires_at=END + 1))

    assert delete_expired(store, END - 1, 90) == (0, END)
    steps = [delete_expired(store, END + 9, 90).gone for _ in range(3)]

    assert steps == [MAX_PER_STEP + 1, 1, 0]
    for table in ("records", "versions"):
        assert store._connection.execute(f"SELECT count(*) FROM {table}").get == 0
    assert store.records.expiry.concerns is False


def test_the_expiry_flag_is_correct_after_open_and_rollback(
    tmp_path: Path,
) -> None:
    store = make_store(tmp_path)
    assert store.records.expiry.concerns is False
    store.begin()
    write(store, make_record("tea", expires_at=END))
    assert store.records.expiry.concerns is True
    store.rollback()
    assert store.records.expiry.concerns is False
    perform_at(store, NOW, "records.create", content="tea", expires_at=format_time(END))
    store.close()

    assert make_store(tmp_path).records.expiry.concerns is True


def test_a_step_deletes_few_long_records(store: Store) -> None:
    with store.transaction() as tx:
        for _ in range(3):
            write(tx, make_record("tea " * MAX_EXPIRED_BYTES, expires_at=END))

    left = []
    for _ in range(3):
        delete_expired(store, END, 90)
        left.append(store._connection.execute("SELECT count(*) FROM records").get)

    assert left == [2, 1, 0]
