"""Measures compared with values computed by hand, and the confidence interval of their mean."""

from math import log2

import pytest

from benchmarks.recall.bootstrap import interval
from benchmarks.recall.collection import Question
from benchmarks.recall.measures import (
    all_found,
    all_of,
    any_found,
    any_of,
    ndcg,
    recall,
    session_recall,
    threads_of,
)
from benchmarks.recall.rank_fusion import fuse

THREADS = {"a": "one", "b": "one", "c": "two", "d": "three"}


def test_recall_is_the_share_of_gold_in_the_top_k() -> None:
    assert recall(["a", "x", "b", "c"], ["a", "b", "c", "d"], 3) == 0.5
    assert recall([], ["a"], 3) == 0.0


def test_any_needs_one_and_all_needs_every_gold_document() -> None:
    question = Question("?", {"a": 1.0, "b": 1.0})

    assert [any_found(k)(["x", "a", "b"], question, {}) for k in (1, 2, 3)] == [0.0, 1.0, 1.0]
    assert [all_found(k)(["x", "a", "b"], question, {}) for k in (1, 2, 3)] == [0.0, 0.0, 1.0]


def test_any_and_all_of_sessions_count_sessions() -> None:
    question = Question("?", {"b": 1.0, "c": 1.0})
    measures = [change(session_recall(k)) for k in (1, 2) for change in (any_of, all_of)]

    assert [one(["d", "a", "c"], question, THREADS) for one in measures] == [0.0, 0.0, 1.0, 0.0]
    assert [one(["a", "c"], question, THREADS) for one in measures] == [1.0, 0.0, 1.0, 1.0]


def test_ndcg_divides_the_discounted_gain_by_the_best_possible() -> None:
    found = ndcg(["x", "a", "b"], {"a": 1.0, "b": 1.0}, 10)

    assert found == pytest.approx((1 / log2(3) + 1 / log2(4)) / (1 / log2(2) + 1 / log2(3)))
    assert found == pytest.approx(0.6934, abs=1e-4)


def test_ndcg_uses_linear_gains_and_stops_at_k() -> None:
    gold = {"a": 3.0, "b": 1.0, "c": 1.0}

    assert ndcg(["b", "a", "c"], gold, 2) == pytest.approx((1 + 3 / log2(3)) / (3 + 1 / log2(3)))
    assert ndcg(["x", "y", "a"], gold, 2) == 0.0


def test_a_thread_ranks_at_its_first_document() -> None:
    assert threads_of(["c", "a", "b", "d"], THREADS) == ["two", "one", "three"]


def test_a_session_counts_once_for_any_number_of_turns() -> None:
    question = Question("?", {"c": 1.0, "d": 1.0})

    assert session_recall(2)(["a", "b", "c", "d"], question, THREADS) == 0.5


def test_rank_fusion_sums_reciprocal_ranks() -> None:
    assert fuse([["a", "b", "c"], ["c", "b"]]) == ["c", "b", "a"]


def test_an_interval_is_deterministic_and_narrows_with_more_questions() -> None:
    few, many = interval([0.0, 1.0] * 20), interval([0.0, 1.0] * 2000)

    assert few == interval([0.0, 1.0] * 20)
    assert few[0] == pytest.approx(0.5 - 1.96 * 0.5 / 40**0.5, abs=0.03)  # the normal approximation
    assert few[0] < many[0] < 0.5 < many[1] < few[1]


def test_the_interval_of_equal_values_is_that_value() -> None:
    assert interval([0.25] * 7) == (0.25, 0.25)
