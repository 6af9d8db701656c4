"""What is skipped, merged and created of more than 700 labelled pairs, with the built-in embedder
and without one."""

from collections import Counter
from functools import cache

import pytest

from memrelay.memory.dedup.similarity import Similarity, compare
from memrelay.memory.embedding.embedder import EmbeddingOptions, Model
from memrelay.memory.embedding.loading import load
from tests.memory.dedup.pairs import SAME, Pair, cosines, measure, read_pairs

PAIRS, FRESH = (
    read_pairs("pairs"),
    read_pairs("fresh"),
)  # of the fresh ones none was written before the code
UNSEEN = read_pairs(
    "unseen"
)  # written before the code that they were first measured with, and of other constructions
EVERYDAY = read_pairs(
    "everyday"
)  # written by a reader of the code; what was found with them was mended
NAME = "all-MiniLM-L6-v2-int8/384"


@cache
def measured(model: Model) -> dict[Pair, float]:
    """The cosine of each pair."""
    return cosines([*PAIRS, *FRESH, *UNSEEN, *EVERYDAY], load(EmbeddingOptions(model)))


def judge(pair: Pair) -> Similarity:
    return compare(pair.new, pair.old, measured("local")[pair], NAME)


def test_the_set_has_enough_of_each_kind() -> None:
    kinds = Counter(pair.kind for pair in PAIRS)

    assert len(set(PAIRS)) == len(PAIRS) >= 700
    assert min(kinds.values()) >= 40


def test_duplicates_are_told_with_the_precision_and_the_recall_that_are_asked_for() -> None:
    figures = measure(PAIRS, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.80


def test_in_the_half_that_was_not_looked_at_precision_holds_and_recall_is_what_the_page_says() -> (
    None
):
    figures = measure([pair for pair in PAIRS if not pair.tuned], judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.80


def test_with_pairs_that_were_written_after_the_code_it_is_the_same() -> None:
    figures = measure(FRESH, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.80


def test_with_pairs_of_other_constructions_precision_holds_and_recall_is_what_the_page_says() -> (
    None
):
    figures = measure(UNSEEN, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.60


def test_of_a_readers_everyday_pairs_none_that_differ_are_skipped_and_recall_is_what_the_page_says() -> (
    None
):
    figures = measure(EVERYDAY, judge)

    assert figures.wrong == 0
    assert figures.recall >= 0.85


def test_the_coarser_embedder_is_as_precise() -> None:
    figures = measure(
        PAIRS,
        lambda pair: compare(
            pair.new, pair.old, measured("wordllama")[pair], "wordllama-l2-supercat/256"
        ),
    )

    assert figures.precision >= 0.98
    assert figures.recall >= 0.75


@pytest.mark.parametrize("kind", ["number", "date", "name", "negation", "antonym", "role"])
def test_facts_that_differ_in_what_counts_are_never_skipped(kind: str) -> None:
    skipped = [pair for pair in PAIRS if pair.kind == kind and judge(pair).score >= 0.95]

    assert skipped == []


@pytest.mark.parametrize(
    "kind", ["number", "date", "name", "negation", "antonym", "role", "detail"]
)
def test_nor_are_they_the_other_way_round_or_by_an_embedder_that_takes_them_for_one(
    kind: str,
) -> None:
    of_kind = [pair for pair in (*PAIRS, *FRESH, *UNSEEN, *EVERYDAY) if pair.kind == kind]

    assert [
        pair
        for pair in of_kind
        if compare(pair.old, pair.new, measured("local")[pair], NAME).score >= 0.95
    ] == []
    assert [
        pair for pair in of_kind if compare(pair.new, pair.old, 0.999, NAME).score >= 0.95
    ] == []


def test_what_is_unrelated_is_created() -> None:
    assert [pair for pair in PAIRS if pair.kind == "unrelated" and judge(pair).score >= 0.75] == []


def test_without_an_embedder_repeats_are_skipped_and_nothing_else_that_differs() -> None:
    figures = measure(PAIRS, lambda pair: compare(pair.new, pair.old, None, ""))
    repeats = measure(
        [pair for pair in PAIRS if pair.kind == "repeat"],
        lambda pair: compare(pair.new, pair.old, None, ""),
    )

    assert figures.wrong == 0
    assert repeats.recall >= 0.90


def test_without_an_embedder_only_the_same_words_are_merged() -> None:
    merged = [pair for pair in PAIRS if 0.75 <= compare(pair.new, pair.old, None, "").score < 0.95]

    assert [pair for pair in merged if pair.kind not in SAME] == []


def test_an_embedder_that_nobody_has_measured_is_trusted_less() -> None:
    unknown, cosines = "text-embedding-of-tomorrow/384/ab", measured("local")
    figures = measure(PAIRS, lambda pair: compare(pair.new, pair.old, cosines[pair], unknown))

    assert figures.wrong == 0
    assert compare("Tea is liked", "Coffee is brewed", 0.80, "of-tomorrow/384/ab").score < 0.75
