"""Random batches for LangGraph stores, and InMemoryStore as their oracle.

Filters compare values of one type: InMemoryStore fails for the order of a text, and its true is 1.
"""

from collections import defaultdict
from random import Random
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

LABELS = ("a", "a-b", "b", "users", "use", "é", "*")
KEYS = ("k1", "k2", "key with blanks", "%")
CITIES = ("Rome", 'O"Slo', "", "Ümea")
NAMES = ("ada", "bob", "data.value", "$eq")
# Large enough for all items.
ALL = 500


class Oracle(InMemoryStore):
    """InMemoryStore, except that it lists only namespaces with items."""

    def _handle_list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        self._data = defaultdict(dict, {name: items for name, items in self._data.items() if items})
        return super()._handle_list_namespaces(op)


def random_batch(chance: Random) -> list[Op]:
    kinds = (_get, _put, _put, _put, _delete, _search, _search, _list)
    return [chance.choice(kinds)(chance) for _ in range(chance.randint(1, 8))]


def results_of(store: BaseStore, ops: list[Op]) -> list[Any]:
    """Return the results without times, and searches without their order."""
    return [_comparable(op, result) for op, result in zip(ops, store.batch(ops), strict=True)]


def _comparable(op: Op, result: Any) -> Any:
    if isinstance(op, SearchOp):
        found = [(item.namespace, item.key, item.value) for item in result]
        # The order decides which items a smaller page has.
        return len(found) if op.limit < ALL else sorted(found, key=repr)
    if isinstance(op, GetOp) and result is not None:
        return (result.namespace, result.key, result.value)
    return result


def _namespace(chance: Random) -> tuple[str, ...]:
    return tuple(chance.choice(LABELS) for _ in range(chance.randint(1, 3)))


def _get(chance: Random) -> Op:
    return GetOp(_namespace(chance), chance.choice(KEYS))


def _put(chance: Random) -> Op:
    value = {"n": chance.choice((-1, 0, 1, 1.0, 2.5)), "name": chance.choice(NAMES)}
    if chance.random() < 0.5:
        value["tags"] = chance.sample(NAMES, chance.randint(0, 2))
    if chance.random() < 0.5:
        value["flag"] = chance.random() < 0.5
    if chance.random() < 0.7:
        value["place"] = chance.choice((None, {}, {"city": chance.choice(CITIES)}))
    if chance.random() < 0.3:
        value['a.b "c"'] = {"x.y": {"z": chance.randint(0, 2)}}
    return PutOp(_namespace(chance), chance.choice(KEYS), value)


def _delete(chance: Random) -> Op:
    return PutOp(_namespace(chance), chance.choice(KEYS), None)


def _search(chance: Random) -> Op:
    prefix = _namespace(chance)[: chance.randint(0, 2)]
    conditions = chance.sample(FILTERS, chance.randint(0, 2))
    wanted = {name: make(chance) for name, make in conditions}
    limit, offset = chance.choice(((ALL, 0), (ALL, 0), (3, 0), (2, 4), (0, 0)))
    return SearchOp(prefix, wanted or None, limit, offset)


def _order(chance: Random) -> Any:
    return {chance.choice(("$gt", "$gte", "$lt", "$lte")): chance.choice((-1, 0, 0.5, 1, 2.5))}


def _city(chance: Random) -> Any:
    city = chance.choice((*CITIES, None))
    return {"city": chance.choice((city, {"$eq": city}, {"$ne": city}))}


FILTERS: tuple[tuple[str, Any], ...] = (
    ("n", lambda chance: chance.choice((0, 1, 1.0, None, "1"))),
    ("n", _order),
    ("n", lambda chance: _order(chance) | _order(chance) | {"$ne": 1}),
    ("name", lambda chance: chance.choice(NAMES)),
    ("name", lambda chance: {chance.choice(("$eq", "$ne")): chance.choice(NAMES)}),
    ("flag", lambda chance: chance.choice((True, False, None, {"$ne": True}))),
    ("place", lambda chance: chance.choice((None, {"$ne": None}))),
    ("place", _city),
    ("missing", lambda chance: chance.choice((None, "x", {"$ne": "x"}))),
    ('a.b "c"', lambda chance: {"x.y": {"z": chance.randint(0, 2)}}),
)


def _list(chance: Random) -> Op:
    conditions = tuple(
        MatchCondition(chance.choice(("prefix", "suffix")), _namespace(chance)[:2])
        for _ in range(chance.randint(0, 2))
    )
    limit, offset = chance.choice(((ALL, 0), (ALL, 0), (3, 1)))
    return ListNamespacesOp(conditions or None, chance.choice((None, None, 1, 2)), limit, offset)
