"""Views computed from all records in Python, and random changes of a store."""

import random
import re
from collections import Counter
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import MemoryFault
from tests.memory.builders import NOW, perform

VIEWS: tuple[dict[str, Any], ...] = (
    {"name": "latest", "per": "owner", "show": {"latest": "key"}},
    {"name": "slots", "per": "owner", "show": {"latest": "data.slot"}},
    {
        "name": "top",
        "match": {"kind": "fact"},
        "per": "owner",
        "show": {"top": {"by": "data.rank"}},
    },
    {
        "name": "open",
        "match": {"pattern": r"(?i)\bI will\b", "filter": {"data.done": {"ne": True}}},
        "per": "owner",
        "show": {"top": {"by": "updated_at", "order": "asc"}},
    },
    {"name": "tags", "per": "tags", "show": "count"},
    {"name": "people", "per": "data.people", "show": "count"},
    {"name": "all", "show": "count"},
)
PATTERN = re.compile(r"(?i)\bI will\b")
PEOPLE = ("Ada", "Ben", "Cy")
SQL = (
    "SELECT guid, kind, content, owner, key, tags, data, updated_at, born FROM records "
    "WHERE encrypted = 0 AND NOT (kind >= 'memory.' AND kind < 'memory/')"
)


class Row(NamedTuple):
    """A record as the views see it."""

    guid: str
    kind: str
    content: str
    owner: str | None
    key: str | None
    tags: str
    data: str | None
    updated_at: int
    born: int


def recompute(store: Store) -> set[tuple[str, str, str, Any, str]]:
    """Return (view, part, item, place, guid) of every member of VIEWS."""
    members = set()
    for row in map(Row._make, store.connection.execute(SQL)):
        data, tags = orjson.loads(row.data or "{}"), orjson.loads(row.tags)
        owner, guid = row.owner or "", row.guid
        members |= {("all", "", "", 0, guid)} | {("tags", tag, "", 0, guid) for tag in tags}
        people = data.get("people", [])
        people = people if isinstance(people, list) else [people]
        members |= {("people", one, "", 0, guid) for one in people}
        if owner and row.key is not None:
            members.add(("latest", owner, row.key, row.born, guid))
        if owner and "slot" in data:
            members.add(("slots", owner, str(data["slot"]), row.born, guid))
        if owner and row.kind == "fact" and "rank" in data:
            members.add(("top", owner, "", data["rank"], guid))
        if owner and PATTERN.search(row.content) and data.get("done") is not True:
            members.add(("open", owner, "", row.updated_at, guid))
    return members


def read_members(store: Store) -> set[tuple[str, str, str, Any, str]]:
    """Return what the store keeps, in the same form."""
    sql = (
        "SELECT b.name, m.part, m.item, m.place, m.guid FROM view_members AS m "
        "JOIN built_views AS b ON b.id = m.view"
    )
    return set(store.connection.execute(sql))


def assert_equal(store: Store) -> None:
    """Compare members and counts with a recomputation."""
    expected = recompute(store)
    assert read_members(store) == expected
    counts = (
        "SELECT b.name, c.part, c.records FROM view_counts AS c "
        "JOIN built_views AS b ON b.id = c.view"
    )
    counted = {(name, part): records for name, part, records in store.connection.execute(counts)}
    assert counted == Counter((name, part) for name, part, *_ in expected)


def define_all(store: Store) -> None:
    with store.transaction() as tx:
        for view in VIEWS:
            perform(tx, "views.define", view=view)


def change_at_random(tx: Store, rng: random.Random, at: int) -> None:
    """Make one random change of a record. Refused ones change nothing."""
    guids = [guid for (guid,) in tx.connection.execute("SELECT guid FROM records LIMIT 200")]
    guid = rng.choice(guids) if guids else ""
    now_ms = NOW + at
    choice = rng.randrange(10) if guids else 0
    try:
        if choice < 4:
            perform(tx, "records.create", now_ms=now_ms, **make_fields(rng))
        elif choice < 6:
            perform(tx, "records.update", now_ms=now_ms, guid=guid, **make_fields(rng))
        elif choice == 6:
            perform(tx, "records.append", now_ms=now_ms, guid=guid, content="and I will do it")
        elif choice == 7:
            perform(tx, "records.delete", now_ms=now_ms, guid=guid)
        elif choice == 8:
            tx.records.delete_all({"source": rng.choice(PEOPLE)})
        else:
            perform(tx, "records.erase", now_ms=now_ms, guids=[guid], reason="asked")
    except MemoryFault:
        pass


def make_fields(rng: random.Random) -> dict[str, Any]:
    """Return fields of a record."""
    return {
        "content": rng.choice(("tea", "I will bring tea", "i will not", "willing")),
        "kind": rng.choice(("fact", "note")),
        "owner": rng.choice(PEOPLE),
        "source": rng.choice((*PEOPLE, "d", "e", "f")),
        "key": rng.choice(("city", "food", "plan")),
        "tags": rng.sample(("a", "b", "c"), rng.randrange(3)),
        "data": rng.choice(
            (
                {},
                {"slot": "s1", "rank": rng.randrange(5)},
                {"slot": 7, "done": rng.random() < 0.5},
                {"people": rng.sample(PEOPLE, 2)},
                {"people": "Ada", "rank": 1.5},
            )
        ),
    }
