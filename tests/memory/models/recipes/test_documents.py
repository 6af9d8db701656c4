"""Documents of collections, without an embedder."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.memory.engine.features import FEED
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused, ResultTooLarge, VersionConflict
from memrelay.memory.models.named_memories.table import MemoryTable
from memrelay.memory.models.recipes.documents import DocumentHits, SearchDocuments
from memrelay.memory.models.recipes.step import StepCall, StepFailed, all_step_types
from memrelay.memory.operations import Context, all_operations
from tests.memory.builders import NOW, PLENTY, RECIPES_ID, make_guid, make_store, perform
from tests.memory.models.named_memories.entry_cases import A, C, make_memory, write

CHAT = "instances/a3d8f1b2/chat"
LONG = "".join(f"Step {number} of the upgrade is described here.\n\n" for number in range(100))


@pytest.fixture
def tx(tmp_path: Path) -> Any:
    store = make_store(tmp_path, RECIPES_ID)
    store.compose([FEED])
    with store.transaction() as tx:
        yield tx
    store.close()


def put(tx: Store, uri: str, text: str, **keys: Any) -> Any:
    return perform(tx, "documents.put", **{"collection": "docs", "uri": uri, "text": text} | keys)


def text_of(tx: Store, uri: str) -> str:
    return str(perform(tx, "documents.get", collection="docs", uri=uri).text)


def search(tx: Store, query: str, **keys: Any) -> DocumentHits:
    found: DocumentHits = perform(
        tx, "documents.search", **{"collection": "docs", "query": query} | keys
    )
    return found


def uris(found: DocumentHits) -> list[str]:
    return [item["uri"] for item in found.items]


def chunk_count(tx: Store) -> int:
    return sum(one.chunks for one in perform(tx, "documents.collections").items)


def test_a_document_is_read_listed_and_deleted(tx: Store) -> None:
    written = put(tx, "b.md", "Tea is hot.", title="Tea", metadata={"lang": "en"})
    put(tx, "a.md", LONG)
    put(tx, "c.md", "Milk", collection="other")

    assert written.created and written.document.metadata == {"lang": "en"}
    found = perform(tx, "documents.get", collection="docs", uri="a.md")
    assert (found.text, found.chunks > 3, found.title) == (LONG, True, "")
    page = perform(tx, "documents.list", collection="docs", limit=1)
    rest = perform(tx, "documents.list", collection="docs", cursor=page.next_cursor)
    assert ([one.uri for one in (*page.items, *rest.items)], page.total, rest.next_cursor) == (
        ["a.md", "b.md"],
        2,
        None,
    )
    assert page.items[0].chunks == found.chunks
    collections = perform(tx, "documents.collections").items
    assert [(one.name, one.documents) for one in collections] == [("docs", 2), ("other", 1)]

    for uri in ("a.md", "b.md"):
        perform(tx, "documents.delete", collection="docs", uri=uri)

    assert chunk_count(tx) == 1
    with pytest.raises(RecordNotFound, match=r"no document with the uri 'a\.md'"):
        text_of(tx, "a.md")
    with pytest.raises(RecordNotFound, match="unknown collection 'docs'"):
        search(tx, "upgrade")


def test_a_new_text_leaves_no_chunk_of_the_old_one(tx: Store) -> None:
    first = put(tx, "a.md", LONG, title="Old").document

    second = put(tx, "a.md", LONG[:1500] + "Coffee.", title="New", if_version=[first.version])

    assert (second.created, second.document.chunks, second.document.title) == (False, 2, "New")
    assert text_of(tx, "a.md") == LONG[:1500] + "Coffee." and chunk_count(tx) == 2
    assert not search(tx, "99", mode="fts").items
    with pytest.raises(VersionConflict):
        put(tx, "a.md", "x", if_version=[first.version])
    with pytest.raises(VersionConflict):
        perform(tx, "documents.delete", collection="docs", uri="a.md", if_version=[first.version])
    with pytest.raises(VersionConflict):
        put(tx, "new.md", "x", if_version=[first.version])


def test_every_edit_changes_the_version_and_an_equal_document_changes_nothing(tx: Store) -> None:
    first = put(tx, "a.md", LONG).document
    before = tx.feed.after(0, 1000)

    assert put(tx, "a.md", LONG).document == first
    assert tx.feed.after(0, 1000) == before and len(before) == first.chunks
    assert put(tx, "a.md", LONG + "!", now_ms=NOW + 1).document.version != first.version
    assert text_of(tx, "a.md") == LONG + "!"


def test_a_document_with_an_erased_chunk_can_be_replaced(tx: Store) -> None:
    put(tx, "a.md", "Secret word. " + LONG)
    perform(tx, "records.erase", text="Secret word")

    assert "Secret" not in text_of(tx, "a.md") and "Step 99" in text_of(tx, "a.md")
    put(tx, "a.md", LONG)

    assert text_of(tx, "a.md") == LONG
    assert chunk_count(tx) == perform(tx, "documents.get", collection="docs", uri="a.md").chunks


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"collection": "memory:x"}, "pattern"),
        ({"uri": ""}, "at least 1"),
        ({"text": " \n"}, "pattern"),
        ({"text": "x" * 262_145}, "at most 262144"),
        ({"metadata": {"a": "x" * 4096}}, "at most 4,096"),
    ],
)
def test_invalid_documents_are_refused(tx: Store, changed: dict[str, Any], rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        perform(tx, "documents.put", **{"collection": "docs", "uri": "a", "text": "b"} | changed)


def test_a_document_that_fits_into_no_answer_is_refused(tx: Store) -> None:
    put(tx, "a.md", LONG)

    with pytest.raises(ResultTooLarge, match="split the document"):
        perform(tx, "documents.get", collection="docs", uri="a.md", result_bytes=1000)


def test_a_search_returns_the_best_chunk_of_each_document(tx: Store) -> None:
    put(tx, "long.md", LONG, title="Upgrade", metadata={"lang": "en"})
    put(tx, "tea.md", "Tea is made with hot water.")
    put(tx, "short.md", "An upgrade takes an hour.", metadata={"lang": "de"})

    found = search(tx, "step 42 of the upgrade")

    assert sorted(uris(found)) == ["long.md", "short.md"]
    best = found.items[0]
    assert (best["uri"], best["title"], best["metadata"]) == ("long.md", "Upgrade", {"lang": "en"})
    assert "Step 42 " in best["text"] and best["collection"] == "docs"
    assert LONG.count(best["text"]) == 1 and best["chunk"] == 1
    assert best["timestamp"].startswith("2023-11-14T22:13:20")
    assert [warning.code for warning in found.warnings] == ["only_words"]
    german = {"filter": {"data.metadata.lang": {"eq": "de"}}}
    assert uris(search(tx, "upgrade", **german)) == ["short.md"]
    assert len(search(tx, "upgrade", top_k=1).items) == 1


def test_many_chunks_of_one_document_leave_room_for_others(tx: Store) -> None:
    put(tx, "long.md", "Upgrade upgrade upgrade.\n\n" * 2000)
    put(tx, "other.md", "Nothing but one short remark: an upgrade, among many other words here.")

    assert uris(search(tx, "upgrade", top_k=2)) == ["long.md", "other.md"]


def test_hits_below_the_minimum_score_are_counted(tx: Store) -> None:
    for number in range(3):
        put(tx, f"{number}", f"Upgrade number {number}")

    found = search(tx, "upgrade", min_score=0.99)

    warning = found.warnings[-1]
    assert not found.items and warning.code == "below_min_score"
    best = search(tx, "upgrade").items[0]["score"]
    assert f"3 hits lie below minScore 0.99, and the best score is {best:g}" in warning.message
    assert not search(tx, "upgrade", min_score=0).warnings[1:]


def test_all_words_must_occur_in_mode_fts(tx: Store) -> None:
    put(tx, "a", "red tea")
    put(tx, "b", "red milk")

    found = search(tx, "red tea", mode="fts")

    assert uris(found) == ["a"] and 0 <= found.items[0]["score"] <= 1 and not found.warnings
    assert not search(tx, 'red "tea', mode="fts", filter={"tags": {"contains": "x"}}).items
    with pytest.raises(Refused, match="embedder"):
        search(tx, "red", mode="semantic")
    assert [one.code for one in search(tx, "...").warnings] == ["empty_query"]


@pytest.fixture
def open_for_read(tmp_path: Path) -> Any:
    """Stores of the same pipeline: the named memories and a chat's store."""
    memories = make_store(tmp_path, "instances/a3d8f1b2/memories")
    chat = make_store(tmp_path, CHAT)
    with memories.transaction() as tx:
        write(tx, make_memory(tx), A, tags=["contact"], metadata={"page": 2})
        write(tx, make_memory(tx, "Other"), C)
    with chat.transaction() as tx:
        perform(tx, "records.create", content="The customer called by phone", kind="note")
    stores = {store.memory_id: store for store in (memories, chat)}

    def find(memory_id: str) -> Store:
        if memory_id not in stores:
            raise Refused(f"no store {memory_id!r} to read")
        return stores[memory_id]

    yield find
    memories.close()
    chat.close()


def call_step(
    tx: Store, open_for_read: Callable[[str], Any], **params: Any
) -> tuple[Any, StepCall]:
    """Run the step with parameters as in a definition."""
    kind = all_step_types()["vector_search"]
    context = Context(NOW, "tester", PLENTY, make_guid, open_for_read=open_for_read)
    tx.records.set_actor(NOW, "tester")
    call = StepCall(tx, context, "found", [], params.pop("run_query", "customer"), {})
    return kind.run(kind.adapter.validate_python(params), call), call


@pytest.mark.parametrize("collection", ["memory:Customer", "id"])
def test_a_step_finds_entries_of_a_named_memory(
    tx: Store, open_for_read: Callable[[str], Any], collection: str
) -> None:
    memories = open_for_read("instances/a3d8f1b2/memories")
    if collection == "id":
        collection = f"memory:{memories.table(MemoryTable).named('Customer').id}"

    items, call = call_step(tx, open_for_read, collection=collection, topK=3)

    (item,) = items
    assert (item["text"], item["tags"], item["data"]) == (A, ["contact"], {"page": 2})
    assert (item["kind"], item["collection"]) == ("entry", collection)
    assert item["id"].startswith("me_a3d8f1b2_")
    assert [code for code, _ in call.warnings] == ["only_words"]


def test_a_step_finds_records_of_another_store(
    tx: Store, open_for_read: Callable[[str], Any]
) -> None:
    items, _ = call_step(tx, open_for_read, collection=f"store:{CHAT}", query="phone")

    (item,) = items
    assert (item["text"], item["kind"]) == ("The customer called by phone", "note")


@pytest.mark.parametrize("collection", ["docs", "memory:Nobody", "store:instances/b/chat"])
def test_an_unknown_collection_fails_the_step(
    tx: Store, open_for_read: Callable[[str], Any], collection: str
) -> None:
    with pytest.raises(StepFailed, match="unknown collection") as failed:
        call_step(tx, open_for_read, collection=collection)

    assert failed.value.code == "unknown_collection"


def test_a_store_without_neighbors_has_no_other_collection(tx: Store) -> None:
    with pytest.raises(RecordNotFound, match="only one store is open"):
        search(tx, "tea", collection=f"store:{CHAT}")


def test_other_faults_of_a_step_have_codes(tx: Store, open_for_read: Callable[[str], Any]) -> None:
    put(tx, "a", "tea")

    with pytest.raises(StepFailed) as failed:
        call_step(tx, open_for_read, collection="docs", mode="semantic")

    assert failed.value.code == "bad_param"
    items, _ = call_step(tx, open_for_read, collection="docs", run_query="tea")
    assert [item["text"] for item in items] == ["tea"]


def test_the_operation_and_the_step_have_the_same_parameters() -> None:
    step = all_step_types()["vector_search"].params.__dataclass_fields__
    operation = all_operations()["documents.search"].input.__dataclass_fields__

    assert {*step, "receipt"} == set(operation)
    assert replace(SearchDocuments("a", "b"), top_k=5) == SearchDocuments("a", "b")
