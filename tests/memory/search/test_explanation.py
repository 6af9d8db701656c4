"""Explanations of a search: the scores behind the order, the terms and filters, and the reason for
an empty result."""

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.loading import LazyEmbedder
from memrelay.memory.search.embedding.questions import QuestionEmbedder
from memrelay.memory.search.explanation import MAX_EXPLAINED, Explanation
from memrelay.memory.search.pool import Pool, SemanticResources
from memrelay.memory.search.query import NO_BOOSTS, Boosts
from memrelay.memory.search.search import Hits, Mode, SearchInput, search, search_explained
from tests.memory.builders import (
    FAST_ROOT,
    MEMORY_ID,
    NOW,
    PLENTY,
    make_record,
    make_store,
    perform,
    write_all,
)
from tests.memory.search.embedding.embedders import embed_all

SENTENCES = (
    "we meet at three in the afternoon",
    "my cat sleeps all day",
    "the tea is cold",
    "Ann drove to the stadium",
    "Bob made tea in June",
    "userName is v1.2.3",
    "kittens take naps",
)
QUESTIONS = (
    "When did Ann drink tea?",
    "tea",
    "cat naps -cold",
    "an appointment",
    "tea in June 2023",
    "user_name",
    '"the tea"',
    "te* kind:fact",
    "zzxq",
)
DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def lazy() -> Iterator[LazyEmbedder]:
    loaded = LazyEmbedder(EmbeddingOptions("local"))
    loaded.get()
    yield loaded


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def explain_search(
    store: Store, query: str, mode: Mode = "hybrid", **wanted: Any
) -> tuple[list[Record], Explanation]:
    with store.transaction() as tx:
        return search_explained(tx, SearchInput(query, PLENTY, mode=mode, **wanted))


def empty_reason(store: Store, query: str, mode: Mode = "hybrid", **wanted: Any) -> tuple[str, str]:
    found, explanation = explain_search(store, query, mode, **wanted)
    assert found == [] and explanation.hits == () and explanation.nothing is not None
    return explanation.nothing.reason, explanation.nothing.detail


def check_order(found: list[Record], explanation: Explanation) -> None:
    """Rebuild the order of the hits from the explanation alone."""
    assert [(hit.guid, hit.score) for hit in explanation.hits] == [
        (one.guid, one.score) for one in found
    ]
    for hit in explanation.hits:
        assert all(arm.share == arm.weight * arm.score for arm in hit.arms)
        assert math.isclose(
            sum(arm.share for arm in hit.arms) * math.prod(hit.factors.values()),
            hit.score,
            rel_tol=1e-4,
        )
    hits = list(explanation.hits)
    # the best hits are reranked
    assert sorted(hits, key=lambda hit: (hit.read is None, -(hit.read or hit.score))) == hits
    for hit in hits:
        if hit.read is not None:
            odds = hit.score / (1 - hit.score) * math.exp(sum(hit.signals.values()))
            assert math.isclose(odds / (1 + odds), hit.read, rel_tol=1e-3)
    for arms in zip(*(hit.arms for hit in explanation.hits), strict=True):
        ranked = sorted((arm for arm in arms if arm.rank is not None), key=lambda arm: -arm.score)
        assert sorted(arm.rank or 0 for arm in ranked) == [arm.rank for arm in ranked]


turns = st.tuples(
    st.sampled_from(SENTENCES),
    st.sampled_from(["Ann", "Bob"]),
    st.sampled_from(["", "t", "u"]),
    st.sampled_from(["fact", "note"]),
    st.integers(0, 300),
)


@settings(max_examples=30)
@given(
    conversation=st.lists(turns, max_size=16),
    added=st.lists(turns, max_size=2),
    question=st.sampled_from(QUESTIONS),
    recency=st.sampled_from([0.0, 0.4, 1.0]),
    limit=st.sampled_from([1, 3, 10, 30]),
)
def test_the_explanation_reproduces_the_order_in_each_ranked_mode(
    lazy: LazyEmbedder, conversation: Any, added: Any, question: str, *, recency: float, limit: int
) -> None:
    boosts = Boosts(recency, 30, 0.5 * recency, NOW)
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = Store(
            MEMORY_ID,
            store_path(Path(root), MEMORY_ID),
            meaning=SemanticResources(QuestionEmbedder(lazy), Pool(1 << 20)),
        )
        write_turns(store, conversation)
        embed_all(store, lazy.get())
        write_turns(store, added)  # these records have no vector yet
        for mode in ("hybrid", "semantic"):
            found, explanation = explain_search(store, question, mode, limit=limit, boosts=boosts)  # type: ignore[arg-type]
            check_order(found, explanation)
            assert (explanation.nothing is None) == bool(found)
            with store.transaction() as tx:
                assert (
                    search(tx, SearchInput(question, PLENTY, mode=mode, limit=limit, boosts=boosts))
                    == found
                )  # type: ignore
        store.close()


@given(conversation=st.lists(turns, max_size=9), question=st.sampled_from(QUESTIONS))
def test_the_order_of_fts_mode_is_explained(conversation: Any, question: str) -> None:
    with TemporaryDirectory(dir=FAST_ROOT) as root:
        store = make_store(Path(root))
        write_turns(store, conversation)
        found, explanation = explain_search(store, question, "fts")
        for arm in ("content", "parts"):
            its = [hit for hit in explanation.hits for one in hit.arms if one.arm == arm]
            check_order(
                [one for one in found if one.guid in {hit.guid for hit in its}],
                keep_hits(explanation, its),
            )
            assert [one.rank for hit in its for one in hit.arms] == list(range(1, len(its) + 1))
        assert (explanation.nothing is None) == bool(found)
        store.close()


def keep_hits(explanation: Explanation, hits: Any) -> Explanation:
    return Explanation(
        **{name: getattr(explanation, name) for name in explanation.__slots__}
        | {"hits": tuple(hits)}
    )


def write_turns(store: Store, conversation: Any) -> None:
    with store.transaction() as tx:
        for content, speaker, thread, kind, days in conversation:
            write(
                tx,
                make_record(
                    content,
                    source=speaker,
                    kind=kind,
                    now_ms=NOW - days * DAY_MS,
                    **{"thread": thread} if thread else {},
                ),
            )


def test_terms_are_explained_with_their_spellings_and_places(store: Store) -> None:
    with store.transaction() as tx:
        for speaker, text in (("Ann", "I painted the sea"), ("Bob", "lovely sails")):
            write(tx, make_record(text, source=speaker, thread="t"))

    _, explanation = explain_search(store, "What did Ann paint, sailing the sae?")

    terms = {term.term: (term.state, term.spellings, term.suggestion) for term in explanation.terms}
    assert terms["paint"] == ("wanted", ("painted",), None) and terms["sailing"] == (
        "wanted",
        ("sails",),
        None,
    )
    assert terms["ann"] == ("speaker", (), None)
    assert terms["sae"] == ("unknown", (), "sea") and terms["what"][0] == "stop word"
    first = explanation.hits[0]
    assert {(held.term, held.where) for held in first.terms} == {
        ("paint", "record"),
        ("sailing", "window"),
    } and first.speaker


def test_filters_inside_and_outside_the_query_are_explained(store: Store) -> None:
    write_all(store, "tea", kind="note")

    _, explanation = explain_search(
        store, "tea kind:note before:1900000000000", filters={"scope": MEMORY_ID}, tags=()
    )

    assert explanation.filters == {
        "scope": MEMORY_ID,
        "kinds": ["note"],
        "before_ms": 1_900_000_000_000,
    }


def test_a_date_in_the_question_is_a_factor(store: Store) -> None:
    write_all(store, "tea", now_ms=1_686_830_400_000)  # 15 June 2023

    (hit,) = explain_search(store, "tea in June 2023")[1].hits

    assert math.isclose(hit.factors["time"], 1.2, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("query", "mode", "reason", "words"),
    [
        ("?!", "fts", "nothing asked", "no word"),
        ("?!", "hybrid", "nothing asked", "no word"),
        ("tae", "fts", "unknown", "'tea' is nearest to 'tae'"),
        ("tae", "hybrid", "unknown", "'tea' is nearest to 'tae'"),
        ("blorp zzxq tea qwrt", "hybrid", "below threshold", "0.24 is needed"),
        ("tea kind:plan", "fts", "filtered", "there are 2"),
        ("tea kind:plan", "hybrid", "filtered", "there are 3 in the store"),
        ("coffee kind:note", "hybrid", "filtered", "there are 1 that would be found"),
        ("kind:plan", "fts", "filtered", "there are 3"),
        ("tea -milk -sugar", "fts", "excluded", "there are 2"),
        ("tea -milk -sugar", "hybrid", "excluded", "excludes"),
        ("coffee milk", "fts", "not together", "hybrid"),
        ('"milk tea"', "hybrid", "unknown", "'\"milk tea\"'"),
    ],
)
def test_an_empty_result_has_a_reason(
    store: Store, query: str, mode: Mode, reason: str, words: str
) -> None:
    write_all(store, "tea with milk", "tea with sugar", kind="note")
    write_all(store, "coffee", kind="fact")

    found_reason, detail = empty_reason(store, query, mode)

    assert found_reason == reason and words in detail


def test_an_empty_store_and_a_zero_limit_are_reasons(store: Store) -> None:
    assert [empty_reason(store, "tea", mode)[0] for mode in ("fts", "hybrid")] == ["no records"] * 2  # type: ignore[arg-type]
    write_all(store, "tea")
    assert [empty_reason(store, "tea", mode, limit=0) for mode in ("fts", "hybrid")] == (  # type: ignore[arg-type]
        [("nothing asked", "`limit` is 0")] * 2
    )


def test_only_the_first_100_hits_are_explained_and_a_note_says_so(store: Store) -> None:
    write_all(store, *["tea"] * (MAX_EXPLAINED + 1))

    for mode in ("fts", "hybrid"):
        found, explanation = explain_search(store, "tea", mode, limit=1000)  # type: ignore[arg-type]
        assert (len(found), len(explanation.hits)) == (MAX_EXPLAINED + 1, MAX_EXPLAINED)
        assert any("only the first 100" in note for note in explanation.notes)


def test_the_operation_explains_on_request(store: Store) -> None:
    write_all(store, "tea")

    plain, explained = (
        perform(store, "records.search", query="tea", mode="hybrid", explain=explain)
        for explain in (False, True)
    )

    assert plain.explanation is None and plain.items == explained.items
    assert TypeAdapter(Hits).validate_json(orjson.dumps(explained)) == explained
    assert explained.explanation.hits[0].guid == explained.items[0].record.guid


def test_boosts_are_off_by_default() -> None:
    assert not NO_BOOSTS and not Boosts(now_ms=NOW) and Boosts(importance=0.1)
