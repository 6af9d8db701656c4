"""The ranker of one store: keeps the layout up to date and runs the arms of a search."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.errors import EmbeddingFault
from memrelay.memory.records.record import Record
from memrelay.memory.search.boosts import NAME as ASKS
from memrelay.memory.search.boosts import boosting, question_penalty
from memrelay.memory.search.diversify import diversify
from memrelay.memory.search.explain import explained, explained_match, unfiltered
from memrelay.memory.search.explanation import AsRun, Explanation
from memrelay.memory.search.filters import Filters, RowLists
from memrelay.memory.search.fusion import beside_words, by_meaning, by_themselves, fused, timely
from memrelay.memory.search.granularities import Granularities
from memrelay.memory.search.layout import Layout
from memrelay.memory.search.pool import POOL, Meaning
from memrelay.memory.search.query import NO_BOOSTS, Boosts, Query, match_all, match_any
from memrelay.memory.search.rerank import READ, Reader, rerank
from memrelay.memory.search.results import (
    Floats,
    Found,
    Ranked,
    SearchContext,
    Weights,
    best,
    candidates,
    first_looked_up,
)
from memrelay.memory.search.text_arm import Relevance, TextFound, plain_words, text_arm
from memrelay.memory.search.vector_arm import VectorArm, VectorFound
from memrelay.memory.sqlite.filters import Conditions
from memrelay.memory.sqlite.outline import NOTHING, Since, read_outline
from memrelay.memory.sqlite.records import RecordTable
from memrelay.memory.sqlite.rows import Changes, Rows
from memrelay.memory.sqlite.vectors import VectorTable
from memrelay.memory.sqlite.vocabulary import Vocabulary
from memrelay.memory.text.dates import LANGUAGES, Times, read_times
from memrelay.memory.text.stems import Stems

Mask = NDArray[np.bool_]
# Days are looked up in stores of at most this many records: one microsecond for each.
MOST_TIMED = 200_000


class Ranker:
    """Ranked search inside the store's open transaction, which sees the transaction's own writes.

    Nothing is read before the first search. After a rollback, the affected state is read again.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        records: RecordTable,
        vectors: VectorTable,
        meaning: Meaning | None,
    ) -> None:
        self._connection, self._records = connection, records
        self._vocabulary, self._filters = Vocabulary(connection), Filters(connection)
        self._relevance = Relevance(self._vocabulary)
        self._stems: dict[str, Stems] = {}
        self._vectors = VectorArm(vectors, meaning)
        self._rows = RowLists(connection)
        self._layout: Layout | None = None
        self._granularities = Granularities(Layout.empty())
        self._edits = Changes(self._vectors.changes)  # not yet passed to the row lists
        self._told = False  # whether the row lists received edits in the open transaction
        self._changes = records.changes = Changes(self._edits)
        self._expired: set[int] = set()  # expired rows that the layout leaves out
        self._known = 0  # the highest row in the layout
        self._looked_to = 0  # the highest row in the row lists
        self._committed = -1  # the highest row known to be committed
        self._uncommitted = False  # whether the layout contains uncommitted rows

    def search(
        self,
        query: Query,
        conditions: Conditions,
        limit: int,
        language: str,
        *,
        asked: str = "",
        semantic: bool = False,
        boosts: Boosts = NO_BOOSTS,
        floor: bool = True,
    ) -> Ranked:
        """Return the best `limit` records that meet all conditions.

        `asked` is the text that is compared with vectors. With `semantic`, only vectors count.
        Without `floor`, the best records are returned however low their scores are.

        Raises VectorAwaited: when the vector of the question is not computed yet.
        Raises EmbeddingFault: when `semantic` is set and the store cannot compare vectors.
        """
        scene = self._scene(query, conditions)
        POOL.used(self)
        weights = self._weights(scene.layout, boosts, semantic=semantic)
        if semantic:
            vector = self._vectors.search(scene, asked)
            ranked = weights.best(
                _ranked(by_meaning(vector), scene, first_looked_up(limit), (vector,)), limit
            )
        else:
            most = limit if boosts or limit < 1 or not scene.layout.threaded else max(limit, READ)
            ranked, alone = self._by_both(
                scene, query, first_looked_up(most), language, asked=asked, floor=floor
            )
            ranked = weights.best(ranked, most)
            if not boosts:
                ranked = self._read_again(ranked, weights, language, alone)
            ranked = replace(ranked, places=ranked.places[: max(limit, 0)])
        return weights.applied(ranked)

    def _read_again(
        self, ranked: Ranked, weights: Weights, language: str, alone: Callable[[], Floats] | None
    ) -> Ranked:
        """Rerank the best records, then spread the result over threads."""
        layout, text, reader = ranked.scene.layout, ranked.arms[0], None
        if not layout.threaded or not len(ranked.places):
            return ranked
        if language in LANGUAGES and isinstance(text, TextFound):
            reader = Reader(self._connection, layout, text)
            ranked = rerank(ranked, reader, weights)
        return diversify(ranked, weights, alone, reader)

    def _weights(self, layout: Layout, boosts: Boosts, *, semantic: bool) -> Weights:
        """Return the boosts; a search for words also gets the factor for closing questions."""
        factors = boosting(self._connection, layout, boosts)
        if layout.threaded and not semantic:
            factors[ASKS] = partial(question_penalty, self._connection, layout)
        return Weights(factors, len(layout))

    def _by_both(
        self,
        scene: SearchContext,
        query: Query,
        limit: int,
        language: str,
        *,
        asked: str,
        floor: bool,
    ) -> tuple[Ranked, Callable[[], Floats] | None]:
        """Rank by words and, if the store has vectors, by meaning.

        The second value computes scores without neighbors; None without vectors.
        """
        layout = scene.layout
        times = (
            read_times(asked) if language in LANGUAGES and len(layout) <= MOST_TIMED else Times()
        )
        text = text_arm(
            scene, query, self._stems_of(language), language, beside=times.words, floor=floor
        )
        arms: tuple[Found, ...] = (text,)
        vector: VectorFound | None = None
        on_time = self._filters.on_days(times.patterns, layout)
        try:
            vector = beside_words(self._vectors.search(scene, asked, floor=floor))
        except EmbeddingFault as fault:  # records without vectors are still found by words
            base, without = text.score, str(fault)
        else:
            base, arms, without = fused(text, vector), (text, vector), ""
        ranked = _ranked(
            timely(base, on_time),
            scene,
            limit,
            arms,
            without=without,
            base=base if times.patterns else None,
        )
        return ranked, None if vector is None else partial(_alone, text, vector, layout, on_time)

    def by_relevance(
        self, query: Query, conditions: Conditions, limit: int
    ) -> dict[int, float] | None:
        """Return row -> score of the best `limit` records whose content has all words.

        Scores and order are those of FTS5, best first. Returns None if FTS5 should do the search:
        the query has more than plain words, or few records contain them.
        """
        words = plain_words(query)
        if not words:
            return None
        self._records.complete()
        self._vocabulary.open()
        if not self._relevance.is_faster(words, self._records.last_row):
            return None
        scene = self._scene(query, conditions)
        POOL.used(self)
        return self._relevance.best(scene, words, limit)

    def explain(
        self, ranked: Ranked, run: AsRun, query: Query, conditions: Conditions, found: list[Record]
    ) -> Explanation:
        """Explain how a ranked search in this transaction found the records in `found`."""
        passing = self._filters.mask(conditions, ranked.scene.layout)
        if not found:
            ranked = unfiltered(ranked, partial(self._vectors.search, asked=run.compared))
        return explained(
            replace(ranked, scene=replace(ranked.scene, passing=passing)),
            run,
            query,
            conditions,
            found=found,
        )

    def explain_match(
        self, run: AsRun, query: Query, conditions: Conditions, found: list[Record]
    ) -> Explanation:
        """Explain a search that FTS5 did."""
        scene = self._scene(query, conditions)
        scene = replace(scene, passing=self._filters.mask(conditions, scene.layout))
        return explained_match(scene, run, query, conditions, found=found)

    def nearest(
        self, within: Conditions, vector: Floats, most: int, beside: Iterable[int] = ()
    ) -> dict[int, float]:
        """Return row -> cosine with the vector, for the `most` nearest rows and those `beside`.

        The nearest rows meet the conditions and are not expired. The caller checks this for
        rows `beside`.
        """
        self._records.complete()
        self._tell_rows()
        self._looked_to = self._records.last_row
        rows = self._rows.of(within, self._looked_to)
        if expired := self._records.expired_rows():  # else they could fill the whole result
            rows = rows[~np.isin(rows, expired)]
        POOL.used(self)
        return self._vectors.nearest(rows, vector, most, np.array(sorted(beside), np.int64))

    def _tell_rows(self) -> None:
        """Pass edits and deletions to the row lists."""
        if not self._edits:
            return
        if self._edits.everything:
            self._rows.drop()
        self._rows.change(sorted(self._edits.rows))
        self._edits.clear()
        self._told = True

    def committed(self) -> None:
        """Note that the transaction was committed."""
        self._committed, self._uncommitted, self._changes.uncommitted = (
            self._records.last_row,
            False,
            False,
        )
        self._vectors.committed()
        self._told = False

    def undone(self) -> None:
        """Restore the state of the last commit after a rollback."""
        if self._uncommitted:
            self.drop()
        if self._told:
            self._rows.drop()
            self._told = False
        self._changes.uncommitted = False
        self._committed = self._records.last_row
        if self._looked_to > self._committed:
            self._rows.cut(self._committed)
            self._looked_to = self._committed
        self._vectors.undone()
        self._known = min(self._known, self._committed)  # rows above may be given to other records

    def drop(self) -> None:
        """Free the cached state. The next search reads it again."""
        self._layout, self._uncommitted = None, False
        self._rows.drop()
        self._filters = Filters(self._connection)
        self._vocabulary.drop()

    def close(self) -> None:
        """Detach from a store that is closing."""
        self._records.changes = None
        self._vectors.close()
        POOL.forget(self)

    def nbytes(self) -> int:
        """Return the size of the cached state."""
        layout = self._layout.nbytes if self._layout is not None else 0
        return layout + self._filters.nbytes() + self._rows.nbytes() + self._vocabulary.nbytes

    def _without(self, expired: Rows) -> Layout:
        """Return the current layout without expired rows. Their neighbors become adjacent."""
        rows = set(expired.tolist())
        for row in self._expired - rows:  # deleted, or valid again because the clock went back
            self._changes.add(row)
        layout, self._expired = self._current(), rows
        if len(expired) and len(layout.places(expired)):
            layout = self._layout = layout.changed(expired, NOTHING)
            self._granularities = Granularities(layout)
        return layout

    def _scene(self, query: Query, conditions: Conditions) -> SearchContext:
        """Return the current state of the store, with the records that the query allows."""
        self._records.complete()
        self._vocabulary.open()
        expired = np.asarray(self._records.expired_rows(), np.int64)
        layout = self._without(expired)
        return SearchContext(
            layout,
            self._granularities,
            self._vocabulary,
            self._allowed(query, conditions, layout),
            expired,
        )

    def _current(self) -> Layout:
        """Return the layout, updated to the current rows."""
        last = self._records.last_row
        if self._layout is not None and not self._changes and last == self._known:
            return self._layout
        self._uncommitted |= self._changes.uncommitted or last > self._committed
        if self._layout is None or self._changes.everything:
            self._filters = Filters(self._connection)
            self._vocabulary.drop()
            layout, since = Layout.empty(), Since()
        else:
            layout, since = self._layout, Since(self._known, tuple(sorted(self._changes.rows)))
            self._filters.change(since)
        self._layout = layout.changed(
            np.asarray(since.changed, np.int64), read_outline(self._connection, since)
        )
        self._granularities = Granularities(self._layout)
        self._vocabulary.change(since.row, since.changed, last)
        self._known = last
        self._changes.clear()
        return self._layout

    def _allowed(self, query: Query, conditions: Conditions, layout: Layout) -> Mask | None:
        """Return the places that pass the filters and hold no excluded expression.

        If the query has no words, its phrases are required too.
        """
        allowed = self._filters.mask(conditions, layout)
        # next to words, phrases only rank: a question may quote a title
        if query.phrases and not query.words:
            allowed = _and(allowed, self._holding(match_all(Query(phrases=query.phrases)), layout))
        if query.excluded:
            allowed = _and(allowed, ~self._holding(match_any(query), layout))
        return allowed

    def _holding(self, expression: str, layout: Layout) -> Mask:
        mask = np.zeros(len(layout), bool)
        mask[layout.places(self._vocabulary.matching(expression))] = True
        return mask

    def _stems_of(self, language: str) -> Stems:
        if language not in self._stems:
            self._stems[language] = Stems(language)
        return self._stems[language]


def _ranked(
    scores: Floats,
    scene: SearchContext,
    limit: int,
    arms: tuple[Found, ...],
    *,
    without: str = "",
    base: Floats | None = None,
) -> Ranked:
    return Ranked(
        best(scores, candidates(scores, scene), scene, limit), scores, arms, scene, without, base
    )


def _alone(text: TextFound, vector: VectorFound, layout: Layout, on_time: Mask) -> Floats:
    return timely(by_themselves(text, vector, text.spoken(layout)), on_time)


def _and(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other
