"""Decisions on more than 700 labeled pairs, with the built-in embedder and without one."""

from collections import Counter
from functools import cache

import pytest

from memrelay.memory.models.named_memories.dedup.similarity import Similarity, compare
from memrelay.memory.search.embedding.embedder import EmbeddingOptions, Model
from memrelay.memory.search.embedding.loading import load
from tests.memory.models.named_memories.dedup.pairs import SAME, Pair, cosines, measure, read_pairs

PAIRS = read_pairs("pairs")
# Written after the code.
FRESH = read_pairs("fresh")
# Other constructions, written before the code version that was first measured with them.
UNSEEN = read_pairs("unseen")
# Written by a reader of the code. The faults that they found are fixed.
EVERYDAY = read_pairs("everyday")
NAME = "all-MiniLM-L6-v2-int8/384"


@cache
def measured(model: Model) -> dict[Pair, float]:
    """Return the cosine of each pair."""
    return cosines([*PAIRS, *FRESH, *UNSEEN, *EVERYDAY], load(EmbeddingOptions(model)))


def judge(pair: Pair) -> Similarity:
    return compare(pair.new, pair.old, measured("local")[pair], NAME)


def test_the_pair_set_has_at_least_40_pairs_of_each_kind() -> None:
    kinds = Counter(pair.kind for pair in PAIRS)

    assert len(set(PAIRS)) == len(PAIRS) >= 700
    assert min(kinds.values()) >= 40


@pytest.mark.slow
def test_duplicates_are_found_with_the_required_precision_and_recall() -> None:
    figures = measure(PAIRS, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.80


@pytest.mark.slow
def test_the_half_not_used_for_development_reaches_the_documented_figures() -> None:
    figures = measure([pair for pair in PAIRS if not pair.tuned], judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.79


def test_pairs_written_after_the_code_reach_the_same_figures() -> None:
    figures = measure(FRESH, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.80


def test_pairs_of_other_constructions_reach_the_documented_figures() -> None:
    figures = measure(UNSEEN, judge)

    assert figures.precision >= 0.98
    assert figures.recall >= 0.60


def test_everyday_pairs_reach_the_documented_figures_without_a_false_duplicate() -> None:
    figures = measure(EVERYDAY, judge)

    assert figures.wrong == 0
    assert figures.recall >= 0.85


@pytest.mark.parametrize("pairs", [PAIRS, FRESH, UNSEEN, EVERYDAY], ids=len)
def test_bge_skips_the_same_pairs_as_minilm(pairs: list[Pair]) -> None:
    def skipped(model: Model, name: str) -> set[Pair]:
        scores = {pair: compare(pair.new, pair.old, measured(model)[pair], name) for pair in pairs}
        return {pair for pair, found in scores.items() if found.score >= 0.95}

    found = skipped("bge", "bge-small-en-v1.5-int8/384")

    assert {pair.kind for pair in found} <= set(SAME)
    assert len(found) >= len(skipped("local", NAME))


def test_bge_merges_as_many_related_facts_as_minilm() -> None:
    """It may differ by a tenth."""

    def merged(model: Model, name: str) -> int:
        scores = [compare(pair.new, pair.old, measured(model)[pair], name).score for pair in PAIRS]
        return sum(0.75 <= score < 0.95 for score in scores)

    before = merged("local", NAME)

    assert merged("bge", "bge-small-en-v1.5-int8/384") == pytest.approx(before, rel=0.1)


def test_the_coarser_embedder_reaches_the_same_precision() -> None:
    figures = measure(
        PAIRS,
        lambda pair: compare(
            pair.new, pair.old, measured("wordllama")[pair], "wordllama-l2-supercat/256"
        ),
    )

    assert figures.precision >= 0.98
    assert figures.recall >= 0.75


@pytest.mark.parametrize("kind", ["number", "date", "name", "negation", "antonym", "role"])
def test_pairs_with_an_important_difference_are_never_skipped(kind: str) -> None:
    skipped = [pair for pair in PAIRS if pair.kind == kind and judge(pair).score >= 0.95]

    assert skipped == []


@pytest.mark.parametrize(
    "kind", ["number", "date", "name", "negation", "antonym", "role", "detail"]
)
def test_different_pairs_are_not_skipped_in_reverse_or_with_a_high_cosine(
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


def test_unrelated_facts_are_created() -> None:
    assert [pair for pair in PAIRS if pair.kind == "unrelated" and judge(pair).score >= 0.75] == []


def test_without_an_embedder_repeats_are_skipped_and_different_facts_are_not() -> None:
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


def test_an_unmeasured_embedder_needs_higher_cosines() -> None:
    unknown, cosines = "text-embedding-of-tomorrow/384/ab", measured("local")
    figures = measure(PAIRS, lambda pair: compare(pair.new, pair.old, cosines[pair], unknown))

    assert figures.wrong == 0
    assert compare("Tea is liked", "Coffee is brewed", 0.80, "of-tomorrow/384/ab").score < 0.75
