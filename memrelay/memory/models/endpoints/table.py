"""The tables of endpoints and deliveries in the built-in store `endpoints`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from memrelay.memory.engine.table import StoreTable

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

WAITING, DELIVERED, FAILED = 0, 1, 2
STATES = ("waiting", "delivered", "failed")
DAY_MS = 86_400_000
# How long ended deliveries are kept.
KEPT_MS = 30 * DAY_MS
DELETED_TOGETHER = 1000
# Why an endpoint is switched off whose bundle has left it out.
NO_LONGER_DECLARED = "no longer declared in the bundle"
# The ids of endpoints that an operation has created. The others are names from a bundle.
MADE_PREFIX = "ep_"


@dataclass(frozen=True, slots=True)
class EndpointSpec:
    """What an endpoint gets, and how it is sent."""

    url: str
    events: tuple[str, ...] = ("*",)
    filter: Any = None
    format: str = "standard"
    headers: tuple[tuple[str, str], ...] = ()
    ordered: bool = False
    rate: int = 0
    description: str = ""
    # A body as JSON whose strings are templates, None for that of the format.
    template: Any = None


class Secret(NamedTuple):
    """A signing secret, or a reference to one. `until` is Unix ms, None for no end."""

    value: str
    until: int | None = None


class Endpoint(NamedTuple):
    """A row of `endpoints`. Times are Unix ms."""

    id: str
    spec: EndpointSpec
    secrets: tuple[Secret, ...]
    disabled: str
    created_at: int
    updated_at: int
    failures: int = 0
    failing_since: int | None = None
    last_at: int | None = None
    last_answer: str = ""

    @property
    def is_from_bundle(self) -> bool:
        """Return whether a bundle declares the endpoint, or did."""
        return not self.id.startswith(MADE_PREFIX)

    @property
    def is_declared(self) -> bool:
        """Return whether the deployed bundle declares the endpoint."""
        return self.is_from_bundle and self.disabled != NO_LONGER_DECLARED


class Delivery(NamedTuple):
    """A row of `deliveries`. Times are Unix ms."""

    n: int
    id: str
    endpoint: str
    store: str
    change: int
    type: str
    subject: str
    data: str | None
    at: int
    state: int
    due: int
    tries: int
    ended_at: int | None


class Try(NamedTuple):
    """A row of `delivery_tries`."""

    number: int
    at: int
    took_ms: int
    status: int
    answer: str


class Recovery(NamedTuple):
    """A row of `delivery_recoveries`."""

    endpoint: str
    since: int
    until: int
    store: str = ""
    n: int = 0


COLUMNS = ", ".join(Endpoint._fields)
DELIVERY_COLUMNS = ", ".join(Delivery._fields)
NEW_COLUMNS = "id, endpoint, store, change, type, subject, data, at, state, due, tries"
PUT = f"REPLACE INTO endpoints({COLUMNS}) VALUES ({', '.join('?' * len(Endpoint._fields))})"
INSERT = f"INSERT OR IGNORE INTO deliveries({NEW_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0)"
UPDATE = "UPDATE deliveries SET state = ?, due = ?, tries = ?, ended_at = ? WHERE n = ?"
SELECT = f"SELECT {DELIVERY_COLUMNS} FROM deliveries"
DUE = f"{SELECT} WHERE endpoint = ? AND state = 0 AND due <= ? ORDER BY due, n LIMIT ?"
OLDEST = f"{SELECT} WHERE endpoint = ? AND state = 0 ORDER BY n LIMIT ?"
NEXT_DUE = "SELECT min(due) FROM deliveries WHERE endpoint = ? AND state = 0"
COUNT_OPEN = (
    "SELECT state, count(*) FROM deliveries WHERE endpoint = ? AND state IN (0, 2) GROUP BY state"
)
SURPLUS = (
    "UPDATE deliveries SET state = 2, ended_at = ?1 WHERE n IN (SELECT n FROM deliveries "
    "WHERE endpoint = ?2 AND state = 0 ORDER BY n LIMIT max(0, ?3))"
)
# Their numbers go on after a redelivery, which counts the tries anew.
INSERT_TRY = (
    "INSERT INTO delivery_tries(delivery, number, at, took_ms, status, answer) "
    "SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5 "
    "FROM delivery_tries WHERE delivery = ?1"
)
# A second one begins again, with both periods and what lies between.
BEGIN_RECOVERY = (
    "INSERT INTO delivery_recoveries VALUES (?, ?, ?, ?, ?) ON CONFLICT (endpoint) DO UPDATE SET "
    "since = min(since, excluded.since), until = max(until, excluded.until), store = '', n = 0"
)
LAST_TIMES = (
    "SELECT took_ms FROM delivery_tries WHERE status BETWEEN 200 AND 299 AND delivery IN "
    "(SELECT n FROM deliveries WHERE endpoint = ? AND state = 1 ORDER BY due DESC LIMIT 100) "
    "ORDER BY took_ms"
)
ENDED = "SELECT n FROM deliveries WHERE ended_at < ? ORDER BY ended_at LIMIT ?"


class EndpointTable(StoreTable):
    """Reads and writes endpoints, deliveries and their tries."""

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # By store: when answers were removed. A request does not outlive the process.
        self._erased_ms: dict[str, int] = {}

    def may_quote_erased(self, store: str, began_ms: int) -> bool:
        """Return whether the answer to a request about a store may have a text that was erased
        since the request began.
        """
        return began_ms <= self._erased_ms.get(store, -1)

    def put(self, endpoint: Endpoint) -> None:
        """Write an endpoint in place of the one with its id."""
        values = endpoint._replace(
            spec=orjson.dumps(endpoint.spec).decode(),  # type: ignore[arg-type]
            secrets=orjson.dumps([tuple(one) for one in endpoint.secrets]).decode(),  # type: ignore[arg-type]
        )
        self._connection.execute(PUT, values)

    def find(self, id_: str) -> Endpoint | None:
        """Return an endpoint, None if there is none with that id."""
        return next(self._endpoints(" WHERE id = ?", (id_,)), None)

    def all(self) -> list[Endpoint]:
        """Return all endpoints, the oldest first."""
        return list(self._endpoints(" ORDER BY created_at, id"))

    def count(self) -> int:
        """Return the number of endpoints."""
        return int(self._connection.execute("SELECT count(*) FROM endpoints").get)

    def _endpoints(self, which: str, values: Sequence[Any] = ()) -> Iterator[Endpoint]:
        for row in self._connection.execute(f"SELECT {COLUMNS} FROM endpoints{which}", values):
            found = Endpoint._make(row)
            spec = orjson.loads(row[1])
            spec["events"] = tuple(spec["events"])
            spec["headers"] = tuple(map(tuple, spec["headers"]))
            secrets = tuple(Secret(*one) for one in orjson.loads(row[2]))
            yield found._replace(spec=EndpointSpec(**spec), secrets=secrets)

    def delete(self, id_: str) -> None:
        """Delete an endpoint with its deliveries."""
        which = "(SELECT n FROM deliveries WHERE endpoint = ?)"
        self._connection.execute(f"DELETE FROM delivery_tries WHERE delivery IN {which}", (id_,))
        self._connection.execute("DELETE FROM deliveries WHERE endpoint = ?", (id_,))
        self._connection.execute("DELETE FROM endpoints WHERE id = ?", (id_,))

    def cursor(self, store: str) -> int | None:
        """Return the last change of a store that has become deliveries, None if none has."""
        found: int | None = self._connection.execute(
            "SELECT n FROM delivery_cursors WHERE store = ?", (store,)
        ).get
        return found

    def set_cursor(self, store: str, n: int) -> None:
        """Note the last change of a store that has become deliveries."""
        self._connection.execute("REPLACE INTO delivery_cursors VALUES (?, ?)", (store, n))

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add waiting deliveries: (id, endpoint, store, change, type, subject, data, at, due).

        Those whose id exists are left as they are.
        """
        self._connection.executemany(INSERT, rows)

    def due(self, endpoint: str, now_ms: int, most: int) -> list[Delivery]:
        """Return deliveries whose try is due, those that are due the longest first."""
        rows = self._connection.execute(DUE, (endpoint, now_ms, most))
        return [Delivery._make(row) for row in rows]

    def oldest(self, endpoint: str, most: int) -> list[Delivery]:
        """Return the oldest waiting deliveries, due or not."""
        return [Delivery._make(row) for row in self._connection.execute(OLDEST, (endpoint, most))]

    def next_due(self, endpoint: str) -> int | None:
        """Return when the next try of an endpoint is due, Unix ms. None if none waits."""
        found: int | None = self._connection.execute(NEXT_DUE, (endpoint,)).get
        return found

    def counts(self, endpoint: str) -> tuple[int, int, int]:
        """Return the number of waiting, delivered and failed deliveries."""
        counts = dict(
            self._connection.execute(
                "SELECT state, count(*) FROM deliveries WHERE endpoint = ? GROUP BY state",
                (endpoint,),
            )
        )
        return counts.get(WAITING, 0), counts.get(DELIVERED, 0), counts.get(FAILED, 0)

    def count_open(self, endpoint: str) -> tuple[int, int]:
        """Return the number of waiting and of failed deliveries. It does not count the others."""
        counts = dict(self._connection.execute(COUNT_OPEN, (endpoint,)))
        return counts.get(WAITING, 0), counts.get(FAILED, 0)

    def latency_ms(self, endpoint: str) -> int | None:
        """Return the median time of the last deliveries that were accepted, None for none."""
        times = [took for (took,) in self._connection.execute(LAST_TIMES, (endpoint,))]
        return times[len(times) // 2] if times else None

    def fail_oldest(self, endpoint: str, most_waiting: int, now_ms: int) -> int:
        """End the oldest waiting deliveries above a number as failed. Return how many."""
        surplus = self.counts(endpoint)[WAITING] - most_waiting
        if surplus > 0:
            self._connection.execute(SURPLUS, (now_ms, endpoint, surplus))
        return max(0, surplus)

    def note_try(self, delivery: Delivery, one: Try) -> None:
        """Write a try, and the delivery as it is after it."""
        after = (delivery.state, delivery.due, delivery.tries, delivery.ended_at, delivery.n)
        self._connection.execute(UPDATE, after)
        self._connection.execute(INSERT_TRY, (delivery.n, *one[1:]))

    def find_delivery(self, id_: str) -> Delivery | None:
        """Return a delivery, None if there is none with that id."""
        return next(self.select("WHERE id = ?", (id_,)), None)

    def select(self, which: str, values: Sequence[Any]) -> Iterator[Delivery]:
        """Yield the deliveries of a WHERE clause without text from users."""
        return map(Delivery._make, self._connection.execute(f"{SELECT} {which}", values))

    def tries(self, delivery: int) -> list[Try]:
        """Return the tries of a delivery, the first one first."""
        rows = self._connection.execute(
            "SELECT number, at, took_ms, status, answer FROM delivery_tries "
            "WHERE delivery = ? ORDER BY number",
            (delivery,),
        )
        return [Try._make(row) for row in rows]

    def wait_again(self, delivery: Delivery, now_ms: int) -> None:
        """Let a delivery be sent again now, with its id and all its tries before it."""
        self._connection.execute(UPDATE, (WAITING, now_ms, 0, None, delivery.n))

    def hurry(self, endpoint: str, now_ms: int) -> None:
        """Make all waiting deliveries of an endpoint due now, with all their tries before them."""
        self._connection.execute(
            "UPDATE deliveries SET due = ?1, tries = 0 WHERE endpoint = ?2 AND state = 0",
            (now_ms, endpoint),
        )

    def forget_answers(self, store: str, now_ms: int) -> int:
        """Remove the answers to deliveries of a store, which may quote erased texts, now and when
        an answer comes whose request began before.
        """
        self._erased_ms[store] = now_ms
        self._connection.execute(
            "UPDATE delivery_tries SET answer = '' WHERE answer <> '' AND delivery IN "
            "(SELECT n FROM deliveries WHERE store = ?)",
            (store,),
        )
        return self._connection.changes()

    def begin_recovery(self, recovery: Recovery) -> None:
        """Let the changes of a period become deliveries that never were."""
        self._connection.execute(BEGIN_RECOVERY, recovery)

    def find_recovery(self) -> Recovery | None:
        """Return a recovery that has not ended, None if there is none."""
        row = self._connection.execute("SELECT * FROM delivery_recoveries LIMIT 1").fetchone()
        return None if row is None else Recovery._make(row)

    def note_recovery(self, recovery: Recovery, store: str, n: int) -> None:
        """Note the last change that a recovery has looked at, -1 for all of the store."""
        self._connection.execute(
            "UPDATE delivery_recoveries SET store = ?, n = ? WHERE endpoint = ?",
            (store, n, recovery.endpoint),
        )

    def end_recovery(self, recovery: Recovery) -> None:
        """Delete a recovery."""
        self._connection.execute(
            "DELETE FROM delivery_recoveries WHERE endpoint = ?", (recovery.endpoint,)
        )

    def delete_ended(self, now_ms: int) -> None:
        """Delete some deliveries that ended KEPT_MS ago."""
        ended = list(self._connection.execute(ENDED, (now_ms - KEPT_MS, DELETED_TOGETHER)))
        self._connection.executemany("DELETE FROM delivery_tries WHERE delivery = ?", ended)
        self._connection.executemany("DELETE FROM deliveries WHERE n = ?", ended)
