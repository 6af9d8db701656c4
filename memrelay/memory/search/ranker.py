"""The ranker of one store: keeps the layout up to date and runs the retrievers of a search."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial

import apsw
import numpy as np
from numpy.typing import NDArray

from memrelay.memory.engine.filter_sql import Conditions
from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.row_arrays import Rows
from memrelay.memory.engine.row_metadata import NO_ROWS, Since, read_row_metadata
from memrelay.memory.engine.rows import Changes
from memrelay.memory.engine.vectors import VectorTable
from memrelay.memory.engine.vocabulary import Vocabulary
from memrelay.memory.errors import EmbeddingFault, VectorPending
from memrelay.memory.records.record import Record
from memrelay.memory.search.boosts import boost_factors, validity_factors
from memrelay.memory.search.cross_encoder import CrossEncoder, load_cross_encoder, reread
from memrelay.memory.search.embedding.loading import NO_EMBEDDER
from memrelay.memory.search.explain import explain_match, explain_ranked, with_unfiltered_vectors
from memrelay.memory.search.explanation import Degraded, Explanation, QueryAsRun
from memrelay.memory.search.fusion import (
    VECTOR_SHARE,
    boost_dated,
    fuse,
    raise_dated,
    semantic_scores,
)
from memrelay.memory.search.granularities import BYTES_PER_PLACE, Granularities
from memrelay.memory.search.layout import Layout, Places
from memrelay.memory.search.pool import POOL, SemanticResources
from memrelay.memory.search.query import NO_BOOSTS, Boosts, Query, match_all, match_any
from memrelay.memory.search.rerank import SKIMMED, Reader, rerank, take_turns
from memrelay.memory.search.results import (
    Floats,
    Ranked,
    ScoreFactors,
    SearchContext,
    best_places,
    candidate_places,
    initial_pool_size,
)
from memrelay.memory.search.row_filters import Filters, RowLists
from memrelay.memory.search.text.dates import LANGUAGES, NO_TIMES, Times, date_phrases, read_times
from memrelay.memory.search.text.languages import NO_LANGUAGE
from memrelay.memory.search.text.questions import wants_several
from memrelay.memory.search.text.sentences import asking_part
from memrelay.memory.search.text.stems import Stems
from memrelay.memory.search.text_retriever import Relevance, TextScores, plain_words, score_text
from memrelay.memory.search.validity import VALIDITY_FACTOR
from memrelay.memory.search.vector_retriever import (
    CODE_ERROR,
    LOADING,
    NO_VECTORS,
    VectorArm,
    VectorScores,
)

Mask = NDArray[np.bool_]
# Days are looked up in stores of at most this many records: one microsecond for each.
MAX_DATED = 200_000
MAX_PHRASED = 8  # dates of a question that are searched for in texts
# With approximate vector scores, this many times the best records are scored again. The best are
# already twice the wanted ones (`initial_pool_size`).
RESCORED_POOLS = 2
# By the text that a result gives for its missing vectors.
DEGRADED_BY_FAULT: dict[str, Degraded] = {
    LOADING: "loading",
    NO_EMBEDDER: "no embedder",
    NO_VECTORS: "no vectors",
}


class Ranker:
    """Ranked search inside the store's open transaction, which sees the transaction's own writes.

    Nothing is read before the first search. After a rollback, the affected state is read again.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        records: RecordTable,
        vectors: VectorTable,
        meaning: SemanticResources | None,
        without_limit: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._connection, self._records = connection, records
        self._without_limit = without_limit  # the context in which caches are filled
        self._vocabulary, self._filters = Vocabulary(connection), Filters(connection)
        self._relevance = Relevance(self._vocabulary)
        self._stems: dict[str, Stems] = {}
        self._vectors = VectorArm(vectors, meaning)
        self._rows = RowLists(connection)
        self._pool = POOL if meaning is None else meaning.matrices
        self._layout: Layout | None = None
        self._granularities = Granularities(Layout.empty())
        self._edits = Changes(self._vectors.changes)  # not yet passed to the row lists
        self._row_lists_changed = False  # whether the open transaction changed the row lists
        self._changes = records.changes = Changes(self._edits)
        self._expired: set[int] = set()  # expired rows that the layout leaves out
        self._known = 0  # the highest row in the layout
        self._listed_to = 0  # the highest row in the row lists
        self._committed = -1  # the highest row known to be committed
        self._uncommitted = False  # whether the layout contains uncommitted rows

    def search(
        self,
        query: Query,
        conditions: Conditions,
        limit: int,
        language: str,
        *,
        question: str = "",
        semantic: bool = False,
        boosts: Boosts = NO_BOOSTS,
        conversations: bool = True,
        floor: bool = True,
        vector_share: float = VECTOR_SHARE,
        zone: tzinfo = UTC,
        may_wait: bool = True,
        valid_at: int | None = None,
        by_model: bool = False,
    ) -> Ranked:
        """Return the best `limit` records that meet all conditions.

        `question` is the text that is compared with vectors. With `semantic`, only vectors count.
        Without `conversations`, threads are not turns of speakers: nothing is reranked, and the
        order is that of the scores. Without `floor`, the best records are returned however low
        their scores are. `vector_share` is the part of meaning in a score of words and meaning. The
        days that the question names are those of `zone`. Without `may_wait`, only words count while
        the embedder is loading, except with `semantic`. Records that are not valid at `valid_at`
        (Unix ms, by default now) come last. With `by_model`, a model rereads the best of the
        reranked records.

        Raises VectorPending: when the vector of the question is not computed yet.
        Raises EmbeddingFault: when `semantic` is set and the store cannot compare vectors, or the
        model for `by_model` is missing.
        """
        model = self._load_model() if by_model else None
        context = self._make_context(query, conditions)
        self._pool.mark_used(self)
        conversations &= context.layout.threaded and not semantic
        not_valid = np.array([*self._records.not_valid(valid_at)], np.int64)
        factors = self._make_factors(context.layout, boosts, not_valid)
        if semantic:
            ranked = self._search_semantic(context, question, language, limit, factors)
        else:
            is_reranked = conversations and not boosts and limit > 0
            most = max(limit, SKIMMED) if is_reranked else limit
            ranked = self._search_hybrid(
                context,
                query,
                max(initial_pool_size(limit), most),
                language,
                question=question,
                floor=floor,
                vector_share=vector_share,
                zone=zone,
                may_wait=may_wait,
            )
            ranked = factors.select_best(ranked, most)
            if is_reranked:
                ranked = self._rerank(ranked, factors, language, model)
                ranked = _put_last(ranked, not_valid)
            ranked = replace(ranked, places=ranked.places[: max(limit, 0)])
        self._pool.mark_used(self)  # the search has filled its caches
        return factors.apply_all(ranked)

    def search_by_relevance(
        self, query: Query, conditions: Conditions, limit: int
    ) -> dict[int, float] | None:
        """Return row -> score of the best `limit` records whose content has all words.

        Scores and order are those of FTS5, best first. Returns None if FTS5 should do the search:
        the query has more than plain words, or few records contain them.
        """
        words = plain_words(query)
        if not words:
            return None
        self._records.prepare_search()
        self._vocabulary.open()
        if not self._relevance.is_faster(words, self._records.last_row):
            return None
        context = self._make_context(query, conditions)
        self._pool.mark_used(self)
        return self._relevance.best(context, words, limit)

    def explain(
        self,
        ranked: Ranked,
        run: QueryAsRun,
        query: Query,
        conditions: Conditions,
        found: list[Record],
    ) -> Explanation:
        """Explain how a ranked search in this transaction found the records in `found`."""
        passing = self._filters.mask(conditions, ranked.context.layout)
        if not found:
            ranked = with_unfiltered_vectors(
                ranked, partial(self._vectors.search, question=run.compared)
            )
        return explain_ranked(
            replace(ranked, context=replace(ranked.context, passing=passing)),
            run,
            query,
            conditions,
            found=found,
        )

    def explain_match(
        self, run: QueryAsRun, query: Query, conditions: Conditions, found: list[Record]
    ) -> Explanation:
        """Explain a search that FTS5 did."""
        context = self._make_context(query, conditions)
        context = replace(context, passing=self._filters.mask(conditions, context.layout))
        return explain_match(context, run, query, conditions, found=found)

    def has_missing_vectors(self, ranked: Ranked) -> bool:
        """Return whether vectors were compared, and a record that may be found has none yet."""
        return any(
            isinstance(arm, VectorScores) and self._vectors.has_missing(ranked.context, arm)
            for arm in ranked.arms
        )

    def degraded(self, ranked: Ranked) -> Degraded | None:
        """Return why meaning was not compared with all records; None if it was."""
        if ranked.missing_retriever:
            return DEGRADED_BY_FAULT.get(ranked.missing_retriever, "failed")
        return "incomplete" if self.has_missing_vectors(ranked) else None

    def nearest(
        self, within: Conditions, vector: Floats, most: int, beside: Iterable[int] = ()
    ) -> dict[int, float]:
        """Return row -> cosine with the vector, for the `most` nearest rows and those `beside`.

        The nearest rows meet the conditions and are not expired. The caller checks this for
        rows `beside`.
        """
        self._records.prepare_search()
        self._update_row_lists()
        self._listed_to = self._records.last_row
        rows = self._rows.of(within, self._listed_to)
        if expired := self._records.expired_rows():  # else they could fill the whole result
            rows = rows[~np.isin(rows, expired)]
        self._pool.mark_used(self)
        return self._vectors.nearest(rows, vector, most, np.array(sorted(beside), np.int64))

    def find_vector(self, row: int) -> tuple[Floats, str] | None:
        """Return the stored vector of a record with the fingerprint of its embedder, None if there
        is none."""
        return self._vectors.find_vector(row)

    def committed(self) -> None:
        """Note that the transaction was committed."""
        self._committed = self._records.last_row
        self._uncommitted = self._changes.uncommitted = False
        self._vectors.committed()
        self._row_lists_changed = False

    def undone(self) -> None:
        """Restore the state of the last commit after a rollback."""
        if self._uncommitted:
            self.drop()
        if self._row_lists_changed:
            self._rows.drop()
            self._row_lists_changed = False
        self._changes.uncommitted = False
        self._committed = self._records.last_row
        if self._listed_to > self._committed:
            self._rows.cut(self._committed)
            self._listed_to = self._committed
        self._vectors.undone()
        self._known = min(self._known, self._committed)  # rows above may be given to other records

    def drop(self) -> None:
        """Free the cached state. The next search reads it again."""
        self._layout, self._uncommitted = None, False
        self._granularities = Granularities(Layout.empty())
        self._rows.drop()
        self._filters = Filters(self._connection)
        self._vocabulary.drop()

    def close(self) -> None:
        """Detach from a store that is closing."""
        self._records.changes = None
        self._vectors.close()
        self._pool.forget(self)

    def nbytes(self) -> int:
        """Return the size of the cached state."""
        layout = 0
        if self._layout is not None:
            layout = self._layout.nbytes + BYTES_PER_PLACE * len(self._layout)
        return layout + self._filters.nbytes() + self._rows.nbytes() + self._vocabulary.nbytes

    def _load_model(self) -> CrossEncoder:
        with self._without_limit():
            return load_cross_encoder()

    def _rerank(
        self, ranked: Ranked, factors: ScoreFactors, language: str, model: CrossEncoder | None
    ) -> Ranked:
        """Rerank the best records of conversations."""
        text = ranked.arms[0]
        if not len(ranked.places) or not isinstance(text, TextScores) or language == NO_LANGUAGE:
            return ranked
        vector = next((arm for arm in ranked.arms if isinstance(arm, VectorScores)), None)
        is_english = language in LANGUAGES
        reader = Reader(
            self._connection,
            ranked.context.layout,
            text,
            vector,
            by_meaning=is_english,
            wants_several=is_english and wants_several(ranked.compared),
        )
        ranked = rerank(ranked, reader, factors)
        if model is not None:
            with self._without_limit():  # it has its own limit
                ranked = reread(model, self._connection, ranked)
        return take_turns(ranked, text.speakers) if len(text.speakers) > 1 else ranked

    def _make_factors(self, layout: Layout, boosts: Boosts, not_valid: Rows) -> ScoreFactors:
        """Return the boosts, and the factor of rows that are not valid."""
        factors = boost_factors(self._connection, layout, boosts)
        if len(not_valid):
            factors[VALIDITY_FACTOR] = partial(validity_factors, not_valid, layout)
        return ScoreFactors(factors, len(layout))

    def _search_semantic(
        self,
        context: SearchContext,
        question: str,
        language: str,
        limit: int,
        factors: ScoreFactors,
    ) -> Ranked:
        """Rank by meaning alone."""
        compared = asking_part(question, language) or question
        with self._without_limit():  # it has its own limit
            vector = self._vectors.search(context, compared)
        most = initial_pool_size(limit)
        vector, scores, places = _score_best(vector, semantic_scores, context, most)
        best = best_places(scores, places, context, most)
        ranked = Ranked(best, scores, (vector,), context, compared=compared)
        return factors.select_best(ranked, limit)

    def _search_hybrid(
        self,
        context: SearchContext,
        query: Query,
        limit: int,
        language: str,
        *,
        question: str,
        floor: bool,
        vector_share: float,
        zone: tzinfo,
        may_wait: bool,
    ) -> Ranked:
        """Rank by words and, if the store has vectors, by meaning."""
        times, on_time = self._read_times(context, question, language, zone)
        asking, stems = asking_part(question, language), self._stems_of(language)
        text = score_text(context, query, stems, language, times=times, asking=asking, floor=floor)
        compared = text.correct(asking or question)
        vector, without = self._search_vectors(context, compared, floor=floor, may_wait=may_wait)
        if not text.scores_beyond(times.words):
            text = replace(text, score=raise_dated(text.score, on_time))
        if vector is None:
            base, scores = text.score, boost_dated(text.score, on_time)
            places = candidate_places(scores, context)
        else:

            def combine(vector: VectorScores) -> Floats:
                return boost_dated(fuse(text, vector, vector_share), on_time)

            vector, scores, places = _score_best(vector, combine, context, limit)
            base = fuse(text, vector, vector_share) if times.patterns else scores
        return Ranked(
            best_places(scores, places, context, limit),
            scores,
            (text,) if vector is None else (text, vector),
            context,
            without,
            base if times.patterns else None,
            compared=compared,
        )

    def _search_vectors(
        self, context: SearchContext, question: str, *, floor: bool, may_wait: bool
    ) -> tuple[VectorScores | None, str]:
        """Return (the scores, "") or (None, why there are none): words still find records."""
        try:
            with self._without_limit():
                return self._vectors.search(context, question, floor=floor), ""
        except EmbeddingFault as fault:
            return None, str(fault)
        except VectorPending as pending:
            if may_wait or not pending.is_loading:
                raise
            return None, LOADING

    def _read_times(
        self, context: SearchContext, question: str, language: str, zone: tzinfo
    ) -> tuple[Times, Mask]:
        """Return the dates in a question, and which records were created then or name one.

        If no record was, relative words such as `yesterday` are searched for like others.
        """
        layout = context.layout
        if language not in LANGUAGES or len(layout) > MAX_DATED:
            return NO_TIMES, np.zeros(len(layout), bool)
        times = read_times(question, self._records.versions.now_ms, zone)
        on_time = self._filters.on_days(times.patterns, layout, zone)
        phrases = [phrase for one in times.patterns[:MAX_PHRASED] for phrase in date_phrases(one)]
        if phrases:
            on_time |= self._holding(" OR ".join(f'"{phrase}"' for phrase in phrases), layout)
        return times if on_time.any() else times._replace(relative_words=frozenset()), on_time

    def _update_row_lists(self) -> None:
        """Pass edits and deletions to the row lists."""
        if not self._edits:
            return
        if self._edits.everything:
            self._rows.drop()
        self._rows.change(sorted(self._edits.rows))
        self._edits.clear()
        self._row_lists_changed = True

    def _without_expired(self, expired: Rows) -> Layout:
        """Return the current layout without expired rows. Their neighbors become adjacent."""
        rows = set(expired.tolist())
        for row in self._expired - rows:  # deleted, or valid again because the clock went back
            self._changes.add(row)
        layout, self._expired = self._current(), rows
        if len(expired) and len(layout.places(expired)):
            layout = self._layout = layout.updated(expired, NO_ROWS)
            self._granularities = Granularities(layout)
        return layout

    def _make_context(self, query: Query, conditions: Conditions) -> SearchContext:
        """Return the current state of the store, with the records that the query allows."""
        self._records.prepare_search()
        self._vocabulary.open()
        expired = np.asarray(self._records.expired_rows(), np.int64)
        layout = self._without_expired(expired)
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
        with self._without_limit():
            metadata = read_row_metadata(self._connection, since)
        self._layout = layout.updated(np.asarray(since.changed, np.int64), metadata)
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
            allowed = _both(allowed, self._holding(match_all(Query(phrases=query.phrases)), layout))
        if query.excluded:
            allowed = _both(allowed, ~self._holding(match_any(query), layout))
        return allowed

    def _holding(self, expression: str, layout: Layout) -> Mask:
        mask = np.zeros(len(layout), bool)
        mask[layout.places(self._vocabulary.matching(expression))] = True
        return mask

    def _stems_of(self, language: str) -> Stems:
        if language not in self._stems:
            with self._without_limit():
                self._stems[language] = Stems(language)
        return self._stems[language]


def _score_best(
    vector: VectorScores,
    combine: Callable[[VectorScores], Floats],
    context: SearchContext,
    limit: int,
) -> tuple[VectorScores, Floats, Places]:
    """Return (vector scores, combined scores, the places that can be among the best `limit`).

    If the vector scores are approximate, the places are the best ones, scored again from their
    stored vectors.
    """
    if vector.stored is None:
        scores = combine(vector)
        return vector, scores, candidate_places(scores, context)
    scores = combine(replace(vector, min_score=vector.min_score - CODE_ERROR))
    places = best_places(scores, candidate_places(scores, context), context, RESCORED_POOLS * limit)
    vector = vector.rescored(places)
    scores = combine(vector)
    return vector, scores, places[scores[places] > 0]


def _put_last(ranked: Ranked, rows: Rows) -> Ranked:
    """Put these rows behind all others."""
    if not len(rows):
        return ranked
    is_last = np.isin(ranked.context.layout.row[ranked.places], rows)
    places = np.concatenate([ranked.places[~is_last], ranked.places[is_last]])
    return replace(ranked, places=places)


def _both(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other
