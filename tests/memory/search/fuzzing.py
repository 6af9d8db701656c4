"""Data for the fuzz tests: hostile texts, a store of hostile records, filters and an oracle."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from memrelay.memory.engine.store import Store
from memrelay.memory.records import data as tag_lists
from memrelay.memory.records.record import Record
from memrelay.memory.records.writing import write
from memrelay.memory.search.query import Query, parse
from memrelay.memory.search.search import SearchInput, search
from tests.memory.builders import PLENTY, make_record, make_store

# mode -> extra search input. In `hybrid` the limit is part of the ranking, so nothing may be cut.
MODES: dict[str, dict[str, Any]] = {"fts": {}, "hybrid": {"mode": "hybrid", "limit": 1000}}

HOSTILE: list[str] = [
    *json.loads(Path(__file__).with_name("hostile.json").read_text()),
    "a" * 300,
    "日" * 100,
    "aB" * 60,
    "a-" * 100,
    '"' * 99,
    "-" * 99,
    "*" * 99,
    "(" * 300,
    "tea " * 300,
    "a1b2 " * 90,
    " ".join(f"-{number}" for number in range(300)),
    " ".join(f"tag:{number}" for number in range(70)),
]
GLUE = [" ", " ", " ", "", '"', "-", "*", ":", " -", "\x00", " AND ", ") OR ("]
KINDS = ["a", "b", "a b", "kind:a", "*"]
SCOPES = ["s1", "s 2", "%", "s1/x"]
TAGS = ["x", "a b", "'", "日本", "-x", "[]"]
MOMENTS = [0, 1, 1_000, 1_767_225_600_000, 4_000_000_000_000]  # Unix ms


def splice(chance: Random) -> str:
    """Return a query of hostile texts, joined, cut and mixed."""
    text = chance.choice(HOSTILE)
    for _ in range(chance.randrange(4)):
        text += chance.choice(GLUE) + chance.choice(HOSTILE)
    if chance.random() < 0.2:
        text = text[chance.randrange(len(text)) :] + text[: chance.randrange(len(text))]
    return text


@dataclass(frozen=True)
class Filter:
    """Filters inside a query (`named`) and outside of it (`filters`, `tags`)."""

    named: Query = field(default_factory=Query)
    filters: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The named filters in query syntax."""
        query = self.named
        named = [
            f'{name}:"{value}"'
            for name, values in (
                ("kind", query.kinds),
                ("scope", query.scopes),
                ("tag", query.tags),
            )
            for value in values
        ]
        moments = [
            f"{name}:{moment}"
            for name, moment in (("after", query.after_ms), ("before", query.before_ms))
            if moment is not None
        ]
        return " ".join(named + moments)

    def passes(self, record: Record) -> bool:
        """Return whether the record passes all filters."""
        return (
            passes(self.named, record)
            and set(self.tags) <= set(tag_lists.parse(record.tags))
            and all(getattr(record, name) == value for name, value in self.filters.items())
        )


def passes(query: Query, record: Record) -> bool:
    """Return whether a record passes the filters of a query: the oracle."""
    return (
        (not query.kinds or record.kind in query.kinds)
        and (not query.scopes or record.scope in query.scopes)
        and set(query.tags) <= set(tag_lists.parse(record.tags))
        and (query.after_ms is None or record.created_at >= query.after_ms)
        and (query.before_ms is None or record.created_at < query.before_ms)
    )


def make_filter(chance: Random, text: str) -> Filter:
    """Return a few filters for a query. A query that names a kind or scope gets no other one."""

    def sample(values: list[str]) -> tuple[str, ...]:
        return tuple(chance.sample(values, chance.choice([0, 0, 0, 1, 1, 2])))

    parsed = parse(text)
    named = Query(
        kinds=() if parsed.kinds else sample(KINDS),
        scopes=() if parsed.scopes else sample(SCOPES),
        tags=sample(TAGS)[:1],
        after_ms=chance.choice([None, None, *MOMENTS]),
        before_ms=chance.choice([None, None, *MOMENTS]),
    )
    outside = {"kind": sample(KINDS)[:1], "scope": sample(SCOPES)[:1]}
    return Filter(
        named,
        {name: value for name, values in outside.items() for value in values},
        sample(TAGS)[:1],
    )


def make_hostile_store(root: Path, name: str, records: int = 80) -> Store:
    """Create a store of hostile texts with all kinds, scopes, tags and times. A third of the
    records are turns of conversations."""
    store, chance = make_store(root, f"instances/{name}/memories"), Random(name)
    with store.transaction() as tx:
        for number in range(records):
            content = (
                " ".join(chance.choices(HOSTILE, k=chance.randint(1, 6)))
                .encode(errors="replace")
                .decode()
            )
            turn = (
                {"thread": chance.choice(SCOPES), "seq": number} if chance.random() < 1 / 3 else {}
            )
            write(
                tx,
                make_record(
                    content,
                    guid=f"{name}-{number}",
                    kind=chance.choice(KINDS),
                    scope=chance.choice(SCOPES),
                    tags=tuple(chance.sample(TAGS, chance.randrange(4))),
                    now_ms=chance.choice(MOMENTS),
                    **turn,
                ),
            )
    return store


def found(store: Store, query: str, mode: str, **wanted: Any) -> list[Record]:
    return search(store, SearchInput(query, PLENTY, **(MODES[mode] | wanted)))
