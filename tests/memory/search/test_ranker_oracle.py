"""Mode hybrid compared with an oracle: BM25 of turn, window and segment, after late arrivals,
edits, deletions and rollbacks."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.records.deletion import DeleteInput, delete
from memrelay.memory.records.writing import AppendInput, append, write
from memrelay.memory.search.search import SearchInput, search
from tests.memory.builders import PLENTY, fresh_store, make_record

WORDS = ("tea", "cup", "sky", "blue", "rain", "oak")


@dataclass
class Known:
    """A record in the oracle."""

    row: int
    guid: str
    content: str
    thread: str
    seq: int
    kind: str


def score(query: list[str], of: Known, records: list[Known]) -> float:
    """Compute the score with the formula of docs/search.md."""
    if not of.thread:
        return bm25(query, [one.content for one in records], of.content, records)
    texts = [
        (turn(one, records), window(one, records), segment(one, records))
        for one in records
        if one.thread
    ]
    segments = sorted(dict(segment(one, records) for one in records if one.thread).items())
    mine = (turn(of, records), window(of, records), segment(of, records))
    raw = bm25(query, [one.content for one in records], mine[0], records)
    raw += bm25(query, [one[1] for one in texts], mine[1], records)
    raw += bm25(query, [text for _, text in segments], mine[2][1], records)
    return raw / 3


def bm25(query: list[str], population: list[str], text: str, records: list[Known]) -> float:
    mean = max(sum(len(one.split()) for one in population) / len(population), 1)
    total = 0.0
    for word in query:
        holding = sum(word in one.content.split() for one in records)
        worth = math.log(1 + (len(records) - holding + 0.5) / (holding + 0.5))
        count = text.split().count(word)
        norm = 1.2 * (0.25 + 0.75 * len(text.split()) / mean)
        total += worth * count * 2.2 / (count + norm) if count else 0
    return total


def coverage(query: list[str], records: list[Known]) -> float:
    """Return the largest share of the query in one window, or in one record without a thread."""
    weights = []
    for word in query:
        count = sum(word in one.content.split() for one in records)
        weights.append(math.log(1 + 1 / (count / max(len(records), 1000) + 0.0005)))
    texts = [window(one, records) if one.thread else one.content for one in records]
    shares = [
        sum(weight for word, weight in zip(query, weights, strict=True) if word in text.split())
        for text in texts
    ]
    return max(shares, default=0) / sum(weights)


def thread_of(one: Known, records: list[Known]) -> list[Known]:
    return sorted(
        (other for other in records if other.thread == one.thread),
        key=lambda other: (other.seq, other.row),
    )


def turn(one: Known, records: list[Known]) -> str:
    return one.content


def window(one: Known, records: list[Known]) -> str:
    turns = thread_of(one, records)
    at = turns.index(one)
    return " ".join(other.content for other in turns[max(at - 2, 0) : at + 3])


def segment(one: Known, records: list[Known]) -> tuple[tuple[str, int], str]:
    turns = thread_of(one, records)
    pieces = -(-len(turns) // 15)
    numbers = [at * pieces // len(turns) for at in range(len(turns))]
    mine = numbers[turns.index(one)]
    return (one.thread, mine), " ".join(
        other.content for other, number in zip(turns, numbers, strict=True) if number == mine
    )


@dataclass
class World:
    """A store and its expected records."""

    store: Store
    records: list[Known]
    rows: int = 0

    def change_all(self, tx: Store, steps: list[tuple[Any, ...]]) -> None:
        for step in steps:
            self.change(tx, step)

    def change(self, tx: Store, step: tuple[Any, ...]) -> None:
        name, number, content, thread, seq = step
        if name == "write":
            self.write(tx, content, thread, seq)
        elif self.records and name == "append":
            one = self.records[number % len(self.records)]
            append(tx, AppendInput(make_record(content), one.guid, {}, " "))
            one.content += " " + content
        elif self.records and name == "delete":
            one = self.records.pop(number % len(self.records))
            delete(tx, DeleteInput(one.guid))
        elif name == "delete kind":
            delete(tx, DeleteInput(kind="b"))
            self.records[:] = [one for one in self.records if one.kind != "b"]

    def write(self, tx: Store, content: str, thread: str, seq: int | None) -> None:
        kind = "ab"[self.rows % 2]
        guid = write(tx, make_record(content, thread=thread, seq=seq, kind=kind))
        turns = [one.seq for one in self.records if one.thread == thread]
        self.rows += 1
        place = (max(turns, default=-1) + 1) if seq is None else seq
        self.records.append(Known(self.rows, guid, content, thread, place, kind))

    def check(self, tx: Store, words: list[str], kind: str) -> None:
        """Compare scores and order with the oracle. Without words, search nothing."""
        if not words:
            return
        filters = {"kind": kind} if kind else {}
        found = search(
            tx,
            SearchInput(
                " ".join(words), PLENTY, filters, mode="hybrid", language="none", limit=1000
            ),
        )
        expected = defaultdict(float)
        for one in self.records if coverage(words, self.records) >= 0.24 else ():
            raw = score(words, one, self.records)
            if raw > 0 and kind in ("", one.kind):
                expected[one.guid] = raw / (raw + 8)
        assert {one.guid: one.score for one in found} == pytest.approx(expected, abs=1e-4)
        scores = {one.guid: one.score for one in found}
        by_score = sorted(
            (one for one in self.records if one.guid in scores),
            key=lambda one: (-scores[one.guid], -one.row),
        )
        assert [one.guid for one in found] == [one.guid for one in by_score]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
steps = st.tuples(
    st.sampled_from(("write", "write", "write", "append", "delete", "delete kind")),
    st.integers(0, 99),
    texts,
    st.sampled_from(("", "t", "t", "u")),
    st.none() | st.integers(-3, 30),
)
batches = st.lists(st.tuples(st.lists(steps, max_size=12), st.booleans()), min_size=1, max_size=6)


Batches = list[tuple[list[tuple[Any, ...]], bool]]
histories = given(
    batches=batches,
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    kind=st.sampled_from(("", "a")),
    turns=st.integers(0, 40),
)


@settings(max_examples=12)
@histories
def test_every_state_is_ranked_by_the_documented_formula(
    batches: Batches, words: list[str], kind: str, turns: int
) -> None:
    check_history(batches, words, kind, turns)


@pytest.mark.slow
@settings(max_examples=200)
@histories
def test_many_states_are_ranked_by_the_documented_formula(
    batches: Batches, words: list[str], kind: str, turns: int
) -> None:
    check_history(batches, words, kind, turns)


def check_history(batches: Batches, words: list[str], kind: str, turns: int) -> None:
    with fresh_store() as store:
        world = World(store, [])
        with store.transaction() as tx:
            for number in range(turns):
                world.write(tx, WORDS[number * 7 % 5] + " " + WORDS[number % 4], "t", None)
        for batch, searched_inside in batches:
            with store.transaction() as tx:
                world.change_all(tx, batch)
                world.check(tx, words if searched_inside else [], kind)
            with store.transaction() as tx:
                world.check(tx, words, kind)


class Rollback(Exception):
    """Raised to roll a transaction back."""


@settings(max_examples=20)
@given(
    lost=st.lists(steps, min_size=1, max_size=8),
    kept=st.lists(steps, max_size=8),
    searched_inside=st.booleans(),
)
def test_rolled_back_changes_do_not_affect_the_ranking(
    lost: list[tuple[Any, ...]], kept: list[tuple[Any, ...]], searched_inside: bool
) -> None:
    with fresh_store() as store:
        world = World(store, [])
        with store.transaction() as tx:
            for number in range(6):
                world.write(tx, WORDS[number], "t" if number % 2 else "", None)
            world.check(tx, ["tea"], "")
        before = [Known(**vars(one)) for one in world.records]
        with pytest.raises(Rollback), store.transaction() as tx:
            world.change_all(tx, lost)
            if searched_inside:
                world.check(tx, ["tea", "sky"], "a")
            raise Rollback
        world.records = before
        with store.transaction() as tx:
            world.check(tx, ["tea", "sky"], "a")
            world.change_all(tx, kept)
            world.check(tx, ["tea", "sky"], "")
