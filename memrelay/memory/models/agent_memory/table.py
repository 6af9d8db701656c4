"""The records of agents by their keys and indexes: facts, procedures, episodes and users.

The SQL names the kinds literally and repeats the expressions of the indexes. A query finds facts
that have its words in this order in the key or the value, also as parts of words. Blanks, `_` and
`-` are equal, and so are letters that differ in case or accents. It also finds facts that have all
of its words as whole words in any order.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.counters import COUNTS, Counters
from memrelay.memory.engine.filter_sql import AMONG, UNEXPIRED, Clause
from memrelay.memory.engine.keyed_table import KeyedTable
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.versions import State, StoredRecord, stored_records
from memrelay.memory.models.agent_memory import (
    EPISODE_KIND,
    FACT_KIND,
    PROCEDURE_KIND,
    STEP_KIND,
    USER_KIND,
)
from memrelay.memory.records.columns import EXTRAS, READ, column_list
from memrelay.memory.records.record import Record, RecordExtras, record_of
from memrelay.memory.search.text.folding import folded, normal
from memrelay.memory.search.text.words import in_letters, tokens

COLUMNS = f"{column_list(READ, 'r.')}, 0.0, {column_list(EXTRAS, 'r.')}"
# Columns of a row before the extras and before the counters.
WIDTH = len(Record._fields)
COUNTERS_AT = WIDTH + len(RecordExtras._fields)
# Between the key and the value in the text of a fact. No key has it.
BETWEEN = "\x1f"
_SEPARATORS = re.compile(r"[\s_-]+")
TEXT = (
    "CAST(ifnull(json_extract(r.data,'$.folded'), "
    "lower(r.key || char(31) || substr(r.content, length(r.key) + 3))) AS TEXT)"
)
BASE = "CAST(json_extract(r.data,'$.base') AS REAL)"
GOOD, BAD = "ifnull(t.good, 0)", "ifnull(t.bad, 0)"
CONFIDENCE = f"{BASE} * ({GOOD} + 1) / ({GOOD} + {BAD} + 1.0)"
# Facts with the words in their key come first.
IN_KEY, IN_VALUE, IN_WORDS = 2, 1, 0
# Candidates contain all words. LIKE finds those with the words in order.
RANK = (
    f"CASE WHEN {TEXT} LIKE ? ESCAPE '!' THEN {IN_KEY} "
    f"WHEN {TEXT} LIKE ? ESCAPE '!' THEN {IN_VALUE} ELSE {IN_WORDS} END"
)
# A fact of which all required texts are known to be there.
MATCHES = (
    f"({TEXT} LIKE ? ESCAPE '!' OR {TEXT} LIKE ? ESCAPE '!' OR fact_has_words({TEXT}, r.parts, ?))"
)
AT_ROW = (
    f"SELECT {COLUMNS}, {COUNTS}, {TEXT}, r.parts FROM records AS r "
    "LEFT JOIN tallies AS t ON t.guid = r.guid WHERE r.row = ? AND r.kind = 'memory.fact'"
)
# Candidates are read in two steps, because most of the first ones match.
FIRST_CANDIDATES = 200
VISIBLE = (
    f"SELECT {COLUMNS}, {COUNTS} FROM records AS r INDEXED BY fact_changes "
    "LEFT JOIN tallies AS t ON t.guid = r.guid WHERE r.kind = 'memory.fact' AND r.scope IN ({0}) "
    "AND {1} ORDER BY r.updated_at DESC, r.row DESC LIMIT ?"
)
# It reads only the two indexes.
CANDIDATES = (
    f"SELECT r.row, {RANK} AS rank, {CONFIDENCE} AS confidence "
    "FROM records AS r INDEXED BY fact_texts "
    "LEFT JOIN tallies AS t INDEXED BY tallies_bad ON t.guid = r.guid AND t.bad > 0 "
    "WHERE r.kind = 'memory.fact' AND {0} AND confidence >= ? "
    "ORDER BY {1}confidence DESC, rank DESC, r.updated_at DESC, r.row DESC LIMIT ?"
)


class StoredFact(NamedTuple):
    """A fact with its counters."""

    record: Record
    extras: RecordExtras
    counters: Counters


class FactFilter(NamedTuple):
    """Which facts a search may find."""

    # The scopes of the facts.
    scopes: Sequence[str]
    # Any of these types. Empty: every type.
    fact_types: Sequence[str] = ()
    min_confidence: float = 0.0
    limit: int = 10
    # Facts that are not valid at this time (Unix ms, None for now) come last.
    valid_at: int | None = None


class FactTable(KeyedTable):
    """Finds and writes facts inside the store's open transaction.

    It registers the SQL function `fact_has_words(text, parts, query)`.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, FACT_KIND, "fact_keys")
        self._connection.create_scalar_function("fact_has_words", _has_words, 3, deterministic=True)

    def matching(self, query: str) -> Clause:
        """Return the condition on `records AS r` that a fact of any scope matches a query.

        It is a method because it needs the SQL function of this connection.
        """
        words = parse_fact_query(query)
        if not words.words:
            return "0", ()
        contains = f"instr({TEXT}, ?) > 0 AND " * len(words.required)
        patterns = (words.pattern_in_key, words.pattern_in_value)
        return f"{contains}{MATCHES}", (*words.required, *patterns, query)

    def newest(self, scopes: Sequence[str], limit: int) -> Iterator[StoredFact]:
        """Yield the facts of these scopes, the newest change first."""
        self._records.flush()
        sql = VISIBLE.format(_placeholders(scopes), UNEXPIRED)
        values = (*scopes, self._records.versions.now_ms, limit)
        return map(_stored_fact, self._connection.execute(sql, values))

    def search(self, query: str, within: FactFilter) -> Iterator[StoredFact]:
        """Yield the facts that match a query, the best first.

        The order is valid facts before others, confidence, matches in keys before others, and the
        newest change.
        """
        words = parse_fact_query(query)
        if not words.words:
            return iter(())
        self._records.flush()
        matches = list(self._matches(query, within, within.limit + FIRST_CANDIDATES))
        if None in matches:
            matches = list(self._matches(query, within, -1))
        return (fact for fact in matches if fact is not None)

    def _matches(self, query: str, within: FactFilter, most: int) -> Iterator[StoredFact | None]:
        """Yield the best matches among up to `most` candidates, -1 for all.

        The last one is None if more candidates may match.
        """
        words = parse_fact_query(query)
        which, values = self._conditions(words.required, within)
        patterns = (words.pattern_in_key, words.pattern_in_value)
        lowered = orjson.dumps([*self._records.not_valid(within.valid_at)]).decode()
        last = [] if lowered == "[]" else [lowered]
        rows = self._connection.execute(
            CANDIDATES.format(which, f"{AMONG}, " if last else ""),
            (*patterns, *values, within.min_confidence, *last, most),
        )
        candidates: list[Any] = rows.fetchall()
        left = within.limit
        for row, rank, _ in candidates:
            if not left:
                return
            for *stored, text, parts in self._connection.execute(AT_ROW, (row,)):
                if rank > IN_WORDS or has_whole_words(text, parts, query):
                    left -= 1
                    yield _stored_fact(stored)
        if left and len(candidates) == most:
            yield None

    def _conditions(
        self, required: Sequence[str], within: FactFilter
    ) -> tuple[str, list[str | int]]:
        """Return the conditions that select candidates, and their values."""
        clauses = [f"r.scope IN ({_placeholders(within.scopes)})"]
        values: list[str | int] = [*within.scopes, *required]
        clauses += [f"instr({TEXT}, ?) > 0"] * len(required)
        if within.fact_types:
            types = _placeholders(within.fact_types)
            clauses.append(f"json_extract(r.data,'$.fact_type') IN ({types})")
            values += within.fact_types
        if self._records.expiry.concerns:
            clauses.append(UNEXPIRED)
            values.append(self._records.versions.now_ms)
        return " AND ".join(clauses), values


def _has_words(*values: Any) -> bool:
    return has_whole_words(*values)


def _stored_fact(row: Sequence[Any]) -> StoredFact:
    return StoredFact(*_split_row(row))


def _split_row(row: Sequence[Any]) -> tuple[Record, RecordExtras, Counters]:
    """Return the parts of a row with COLUMNS and COUNTS."""
    record, extras = record_of(row[:WIDTH]), RecordExtras._make(row[WIDTH:COUNTERS_AT])
    return record, extras, Counters._make(row[COUNTERS_AT:])


def _placeholders(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))


class FactQuery(NamedTuple):
    """A query in folded letters."""

    # Words between separators, which must follow each other. Empty: nothing matches.
    words: tuple[str, ...]
    # Words of the full-text index, which may have any order.
    tokens: tuple[str, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """The texts that every match contains, the longest first."""
        joined = "\0".join(self.words)
        within = {token for token in self.tokens if token in joined} or set(self.words)
        return tuple(sorted(within, key=lambda text: (-len(text), text)))

    @property
    def pattern_in_key(self) -> str:
        """The pattern of LIKE for texts that have the words in order in their key."""
        return f"%{self._pattern}%{BETWEEN}%"

    @property
    def pattern_in_value(self) -> str:
        """The pattern of LIKE for texts that have the words in order in their value."""
        return f"%{BETWEEN}%{self._pattern}%"

    @property
    def _pattern(self) -> str:
        return "%".join(re.sub("[%_!]", r"!\g<0>", word) for word in self.words)


@lru_cache(256)
def parse_fact_query(query: str) -> FactQuery:
    """Return the words of a query. It has no syntax."""
    text = fold(query)
    words = tuple(word for word in _SEPARATORS.split(text) if word)
    return FactQuery(words, tuple(dict.fromkeys(tokens(text))) if words else ())


def fold(text: str) -> str:
    """Return a text in small letters without accents."""
    if text.isascii():
        return text.lower()
    apart = normal("NFD", folded(text).lower())
    return "".join(char for char in apart if unicodedata.category(char) != "Mn")


def folded_text(key: str, value: str) -> str | None:
    """Return the text of a fact as `data.folded` has it, None if SQLite computes it: for ASCII."""
    return None if key.isascii() and value.isascii() else fold(key) + BETWEEN + fold(value)


def has_whole_words(text: str, parts: str | None, query: str) -> bool:
    """Return whether a fact has all words of a query as whole words.

    `parts` are the parts of words of its record, such as those of an identifier in camel case.
    """
    words = parse_fact_query(query).tokens
    present = tokens(text)
    missing = [word for word in words if word not in present]
    if missing:
        # In languages without blanks, every letter is a word.
        missing = [word for word in missing if not (in_letters(word) and word in text)]
    if missing and parts:
        in_parts = tokens(fold(parts))
        missing = [word for word in missing if word not in in_parts]
    return bool(words) and not missing


BY_SUCCESS = (
    f"SELECT {COLUMNS}, {COUNTS} FROM records AS r LEFT JOIN tallies AS t ON t.guid = r.guid "
    f"WHERE r.kind = 'memory.procedure' AND {UNEXPIRED} {{0}}"
    "ORDER BY ifnull(t.good, 0) DESC, r.updated_at DESC, r.row DESC"
)


class ProcedureTable(KeyedTable):
    """Finds and writes procedures inside the store's open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, PROCEDURE_KIND, "procedure_keys")

    def by_success(self, scope: str) -> Iterator[tuple[Record, RecordExtras, Counters]]:
        """Yield the procedures of a scope, "" for all, the most successful first."""
        self._records.flush()
        sql = BY_SUCCESS.format("AND r.scope = ? " if scope else "")
        values = [self._records.versions.now_ms, *([scope] if scope else [])]
        for row in self._connection.execute(sql, values):
            yield _split_row(row)


IS_EPISODE, IS_STEP = f"r.kind = '{EPISODE_KIND}'", f"r.kind = '{STEP_KIND}'"
OPEN = (
    f" INDEXED BY open_episodes WHERE {IS_EPISODE} AND json_extract(r.data, '$.ended_at') IS NULL "
    "AND r.key >= ? AND r.key < ? ORDER BY r.row"
)
STEPS = f" WHERE r.thread = ? AND {IS_STEP}"
NEWEST = " ORDER BY r.created_at DESC, r.row DESC LIMIT ?"


class EpisodeTable(KeyedTable):
    """Finds and writes episodes and their steps inside the store's open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, EPISODE_KIND, "episode_keys")

    def newest(self, scope: str, owner: str, limit: int) -> Iterator[StoredRecord]:
        """Yield episodes of a user, the newest first. The scope "" covers every agent."""
        self._records.flush()
        clauses = [IS_EPISODE, UNEXPIRED, "r.owner = ?"]
        values: list[Any] = [self._records.versions.now_ms, owner]
        if scope:
            clauses.append("r.scope = ?")
            values.append(scope)
        which = f" INDEXED BY episode_owners WHERE {' AND '.join(clauses)}{NEWEST}"
        return stored_records(self._connection, which, [*values, limit])

    def open_from(self, first: str, end: str) -> list[StoredRecord]:
        """Return the episodes without an end whose key is at least `first` and below `end`."""
        self._records.flush()
        return list(stored_records(self._connection, OPEN, [first, end]))

    def add_step(self, new: State) -> State:
        """Append a step to the log of its episode, and return it as stored."""
        return self._records.insert_state(new)

    def steps(self, guid: str, limit: int = -1, offset: int = 0) -> list[StoredRecord]:
        """Return steps of an episode, in their order. A limit of -1 means all."""
        self._records.flush()
        which = f"{STEPS} ORDER BY r.seq, r.row LIMIT ? OFFSET ?"
        values: list[Any] = [name_thread(guid), limit, offset]
        return list(stored_records(self._connection, which, values))

    def count_steps(self, guid: str) -> int:
        """Return the number of steps of an episode."""
        self._records.flush()
        sql = f"SELECT count(*) FROM records AS r{STEPS}"
        return int(self._connection.execute(sql, (name_thread(guid),)).get)

    def clear_steps(self, guid: str) -> None:
        """Remove the steps of an episode without keeping a version, before others replace them."""
        for step in self.steps(guid):
            self._records.remove(step)
            self._records.versions.forget(step.guid)

    def delete_with_steps(self, stored: StoredRecord) -> None:
        """Delete an episode with its steps, and keep their last versions."""
        for step in self.steps(stored.guid):
            self._records.delete(step)
        self._records.delete(stored)


def name_thread(guid: str) -> str:
    """Return the thread of the steps of an episode."""
    return f"episode:{guid}"


USERS = "users"
IS_USER = f"r.kind = '{USER_KIND}'"
BY_IDENTIFIER = {
    "telegram_id": f" INDEXED BY user_telegram_ids WHERE {IS_USER} "
    "AND json_extract(r.data, '$.telegram_id') = ?",
    "email": f" INDEXED BY user_emails WHERE {IS_USER} AND json_extract(r.data, '$.email') = ?",
}
# Fields of a user that name the person outside of the store. The indexed ones are unique.
IDENTIFIERS = ("telegram_id", "telegram_username", "email")
MERGED_INTO = f" WHERE {IS_USER} AND json_extract(r.data, '$.merged_into') = ?"
MOST_USED_FACTS = (
    f" LEFT JOIN tallies AS t USING (guid) WHERE r.kind = '{FACT_KIND}' AND r.scope = ? "
    f"AND {UNEXPIRED} ORDER BY ifnull(t.uses, 0) DESC, r.updated_at DESC, r.row DESC LIMIT ?"
)
BELONGING = " WHERE (r.owner = ?1 OR r.scope = 'user:' || ?1) AND r.kind <> 'memory.user'"
TURNS = (
    "SELECT guid, content, source, ifnull(data, '') FROM records WHERE thread IS NOT NULL "
    "AND (instr(lower(content), ?1) OR lower(source) = ?1 OR instr(lower(ifnull(data, '')), ?1))"
)
FACTS = " UNION ALL ".join(
    f"SELECT guid, ifnull(content, ''), ifnull(data, '') FROM {table} WHERE kind = '{FACT_KIND}'"
    for table in ("records", "versions")
)
EXECUTIONS = (
    f"SELECT key FROM records WHERE kind = '{EPISODE_KIND}' AND key IS NOT NULL "
    "AND guid IN (SELECT value FROM json_each(?))"
)


class UserTable(KeyedTable):
    """Finds and writes users inside the store's open transaction."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, USER_KIND, "user_keys")

    def by_id(self, user_id: str) -> StoredRecord | None:
        """Return the user with that canonical id, None if there is none. Merges do not count."""
        return self.find(USERS, user_id)

    def by_identifier(self, name: str, value: str) -> StoredRecord | None:
        """Return the user with that `telegram_id` or `email`, None if there is none."""
        self._records.flush()
        return next(stored_records(self._connection, BY_IDENTIFIER[name], [value]), None)

    def holder(self, state: State) -> StoredRecord | None:
        """Return the other user that has the canonical id, telegram_id or email of a user."""
        if state.kind != self.kind:
            return None
        data = orjson.loads(state.data or "{}")
        holders = [super().holder(state)]
        for name in BY_IDENTIFIER:
            if data.get(name):
                holders.append(self.by_identifier(name, data[name]))
        return next((one for one in holders if one is not None and one.guid != state.guid), None)

    def merged_into(self, user_id: str) -> list[StoredRecord]:
        """Return the users that were merged directly into a user."""
        self._records.flush()
        return list(stored_records(self._connection, MERGED_INTO, [user_id]))

    def belongings(self, user_id: str) -> list[StoredRecord]:
        """Return the records of a user in any kind: by owner, or in the scope of the user."""
        self._records.flush()
        return list(stored_records(self._connection, BELONGING, [user_id]))

    def states(self, stored: StoredRecord) -> list[State]:
        """Return the current state of a user and all earlier ones."""
        state = stored.state
        versions = self._records.versions.of(stored.guid, state.content, state.number)
        return [state, *(version.state for version in versions)]

    def turns(self, word: str) -> Iterator[tuple[str, str, str, str]]:
        """Yield (guid, content, source, data) of turns and steps that may quote a word."""
        self._records.flush()
        yield from self._connection.execute(TURNS, (word,))

    def all_facts(self) -> Iterator[tuple[str, str, str]]:
        """Yield (guid, content, data) of the facts of all scopes, also of earlier states."""
        self._records.flush()
        yield from self._connection.execute(FACTS)

    def executions(self, guids: list[str]) -> list[str]:
        """Return the executions of those records that are episodes."""
        self._records.flush()
        rows = self._connection.execute(EXECUTIONS, (orjson.dumps(guids).decode(),))
        return [key for (key,) in rows]

    def facts(self, user_id: str, limit: int) -> Iterator[tuple[Record, RecordExtras]]:
        """Yield the facts of a user, the most used first."""
        self._records.flush()
        values = [f"user:{user_id}", self._records.versions.now_ms, limit]
        facts: Iterable[StoredRecord] = stored_records(self._connection, MOST_USED_FACTS, values)
        return ((stored.state.record, stored.state.extras) for stored in facts)
