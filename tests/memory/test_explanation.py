"""What a search tells of itself: the scores that ordered the hits, the terms and filters, and why
there is nothing."""

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

from memrelay.memory.embedding.backfill import keep, make, next_task
from memrelay.memory.embedding.embedder import EmbeddingOptions
from memrelay.memory.embedding.loading import LazyEmbedder
from memrelay.memory.embedding.questions import Questions
from memrelay.memory.memory_id import path_of
from memrelay.memory.operations.records_search import (
    Hits,
    Mode,
    SearchInput,
    search,
    search_explained,
)
from memrelay.memory.operations.records_write import write
from memrelay.memory.records.record import Record
from memrelay.memory.search.explanation import MAX_EXPLAINED, Explanation
from memrelay.memory.search.pool import Meaning, Pool
from memrelay.memory.search.query import NO_BOOSTS, Boosts
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import (
    MEMORY_ID,
    NOW,
    PLENTY,
    make_record,
    make_store,
    perform,
    write_all,
)

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


def explained(
    store: Store, query: str, mode: Mode = "hybrid", **wanted: Any
) -> tuple[list[Record], Explanation]:
    with store.transaction() as tx:
        return search_explained(tx, SearchInput(query, PLENTY, mode=mode, **wanted))


def why(store: Store, query: str, mode: Mode = "hybrid", **wanted: Any) -> tuple[str, str]:
    found, told = explained(store, query, mode, **wanted)
    assert found == [] and told.hits == () and told.nothing is not None
    return told.nothing.reason, told.nothing.detail


def check_order(found: list[Record], told: Explanation) -> None:
    """The order, made anew from what is told alone."""
    assert [(hit.guid, hit.score) for hit in told.hits] == [(one.guid, one.score) for one in found]
    for hit in told.hits:
        assert all(arm.share == arm.weight * arm.score for arm in hit.arms)
        assert math.isclose(
            sum(arm.share for arm in hit.arms) * math.prod(hit.factors.values()),
            hit.score,
            rel_tol=1e-4,
        )
    raised = [hit for hit in told.hits if hit.raised is not None]
    others = [hit for hit in told.hits if hit.raised is None]
    assert (
        sorted(others, key=lambda hit: (hit.read is None, -(hit.read or hit.score))) == others
    )  # the best are read again
    assert [
        *others[:10],
        *sorted(raised, key=lambda hit: -(hit.raised or 0)),
        *others[10:],
    ] == list(told.hits)
    for arms in zip(*(hit.arms for hit in told.hits), strict=True):
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
    said=st.lists(turns, max_size=16),
    late=st.lists(turns, max_size=2),
    question=st.sampled_from(QUESTIONS),
    recency=st.sampled_from([0.0, 0.4, 1.0]),
    limit=st.sampled_from([1, 3, 10, 30]),
)
def test_the_order_follows_from_what_is_told_in_each_ranked_mode(
    lazy: LazyEmbedder, said: Any, late: Any, question: str, *, recency: float, limit: int
) -> None:
    boosts = Boosts(recency, 30, 0.5 * recency, NOW)
    with TemporaryDirectory() as root:
        store = Store(
            MEMORY_ID,
            path_of(Path(root), MEMORY_ID),
            meaning=Meaning(Questions(lazy), Pool(1 << 20)),
        )
        converse(store, said)
        while (task := next_task(store, lazy.get(), True, 100)) is not None:
            if task.one is not None:
                keep(store, task.one, make(lazy.get(), task.texts))
        converse(store, late)  # these have no vector yet
        for mode in ("hybrid", "semantic"):
            found, told = explained(store, question, mode, limit=limit, boosts=boosts)  # type: ignore[arg-type]
            check_order(found, told)
            assert (told.nothing is None) == bool(found)
            with store.transaction() as tx:
                assert (
                    search(tx, SearchInput(question, PLENTY, mode=mode, limit=limit, boosts=boosts))
                    == found
                )  # type: ignore
        store.close()


@given(said=st.lists(turns, max_size=9), question=st.sampled_from(QUESTIONS))
def test_what_fts5_orders_is_told_too(said: Any, question: str) -> None:
    with TemporaryDirectory() as root:
        store = make_store(Path(root))
        converse(store, said)
        found, told = explained(store, question, "fts")
        for arm in ("content", "parts"):
            its = [hit for hit in told.hits for one in hit.arms if one.arm == arm]
            check_order(
                [one for one in found if one.guid in {hit.guid for hit in its}],
                keep_hits(told, its),
            )
            assert [one.rank for hit in its for one in hit.arms] == list(range(1, len(its) + 1))
        assert (told.nothing is None) == bool(found)
        store.close()


def keep_hits(told: Explanation, hits: Any) -> Explanation:
    return Explanation(
        **{name: getattr(told, name) for name in told.__slots__} | {"hits": tuple(hits)}
    )


def converse(store: Store, said: Any) -> None:
    with store.transaction() as tx:
        for content, speaker, thread, kind, days in said:
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


def test_terms_are_told_with_their_spellings_and_where_they_stand(store: Store) -> None:
    with store.transaction() as tx:
        for speaker, text in (("Ann", "I painted the sea"), ("Bob", "lovely sails")):
            write(tx, make_record(text, source=speaker, thread="t"))

    _, told = explained(store, "What did Ann paint, sailing the sae?")

    terms = {term.term: (term.state, term.spellings, term.suggestion) for term in told.terms}
    assert terms["paint"] == ("wanted", ("painted",), None) and terms["sailing"] == (
        "wanted",
        ("sails",),
        None,
    )
    assert terms["ann"] == ("speaker", (), None)
    assert terms["sae"] == ("unknown", (), "sea") and terms["what"][0] == "stop word"
    first = told.hits[0]
    assert {(held.term, held.where) for held in first.terms} == {
        ("paint", "record"),
        ("sailing", "window"),
    } and first.speaker


def test_filters_of_the_query_and_beside_it_are_told(store: Store) -> None:
    write_all(store, "tea", kind="note")

    _, told = explained(
        store, "tea kind:note before:1900000000000", filters={"scope": MEMORY_ID}, tags=()
    )

    assert told.filters == {"scope": MEMORY_ID, "kinds": ["note"], "before_ms": 1_900_000_000_000}


def test_a_time_that_the_question_names_is_a_factor(store: Store) -> None:
    write_all(store, "tea", now_ms=1_686_830_400_000)  # 15 June 2023

    (hit,) = explained(store, "tea in June 2023")[1].hits

    assert math.isclose(hit.factors["time"], 1.2, rel_tol=1e-5)


@pytest.mark.parametrize(
    ("query", "mode", "reason", "words"),
    [
        ("?!", "fts", "nothing asked", "no word"),
        ("?!", "hybrid", "nothing asked", "no word"),
        ("tae", "fts", "unknown", "'tea' is nearest to 'tae'"),
        ("suger", "hybrid", "unknown", "'sugar' is nearest to 'suger'"),
        ("blorp zzxq tea qwrt", "hybrid", "below threshold", "0.40 is needed"),
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
def test_why_there_is_nothing(
    store: Store, query: str, mode: Mode, reason: str, words: str
) -> None:
    write_all(store, "tea with milk", "tea with sugar", kind="note")
    write_all(store, "coffee", kind="fact")

    told, detail = why(store, query, mode)

    assert told == reason and words in detail


def test_an_empty_store_and_no_limit_are_told(store: Store) -> None:
    assert [why(store, "tea", mode)[0] for mode in ("fts", "hybrid")] == ["no records"] * 2  # type: ignore[arg-type]
    write_all(store, "tea")
    assert [why(store, "tea", mode, limit=0) for mode in ("fts", "hybrid")] == (  # type: ignore[arg-type]
        [("nothing asked", "`limit` is 0")] * 2
    )


def test_a_hundred_hits_are_explained_and_it_is_said(store: Store) -> None:
    write_all(store, *["tea"] * (MAX_EXPLAINED + 1))

    for mode in ("fts", "hybrid"):
        found, told = explained(store, "tea", mode, limit=1000)  # type: ignore[arg-type]
        assert (len(found), len(told.hits)) == (MAX_EXPLAINED + 1, MAX_EXPLAINED)
        assert any("only the first 100" in note for note in told.notes)


def test_the_operation_explains_where_it_is_asked_to(store: Store) -> None:
    write_all(store, "tea")

    plain, told = (
        perform(store, "records.search", query="tea", mode="hybrid", explain=explain)
        for explain in (False, True)
    )

    assert plain.explanation is None and plain.items == told.items
    assert TypeAdapter(Hits).validate_json(orjson.dumps(told)) == told
    assert told.explanation.hits[0].guid == told.items[0].record.guid


def test_nothing_is_boosted_unless_it_is_asked_for() -> None:
    assert not NO_BOOSTS and not Boosts(now_ms=NOW) and Boosts(importance=0.1)
