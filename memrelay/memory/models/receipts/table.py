"""The rows of receipts."""

import secrets
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.retention import make_time_prefix
from memrelay.memory.engine.table import StoreTable

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

DIGEST_BYTES = 16
INSERT = "INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
GET = "SELECT * FROM receipts WHERE id = ?"
# Receipts that `page` looks at, at most. That takes about 20 ms.
MAX_READ = 20_000
# Ids that `list_ids` returns, at most.
MAX_IDS = 20
END = "SELECT id FROM receipts WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"
NUMBERS = "SELECT guid, number FROM records WHERE guid IN (SELECT value FROM json_each(?))"
# What a user may have written.
TEXTS = ("question", "actor", "thread", "input")
# Larger than any id.
LAST_ID = "g"


class Receipt(NamedTuple):
    """One read, and what it has found."""

    id: str
    change: int
    pipeline: str
    operation: str
    # The input of the operation as JSON.
    question: str
    actor: str
    agent: str
    input: str
    thread: str
    # JSON: [guid, version, score] of each record.
    found: str
    # The number of found records that are not named.
    left_out: int
    # JSON.
    fingerprint: str

    def without_question(self) -> "Receipt":
        """Return the receipt with a digest in place of the question."""
        digest = blake2b(self.question.encode(), digest_size=DIGEST_BYTES).hexdigest()
        return self._replace(question=orjson.dumps({"digest": digest}).decode())


class Wanted(NamedTuple):
    """Which receipts to return. "" stands for any."""

    pipeline: str
    record: str = ""
    input: str = ""
    thread: str = ""


class ReceiptTable(StoreTable):
    """Adds and reads receipts inside the store's open transaction."""

    READS = ("find", "find_end", "list_ids", "new_id", "numbers", "page")

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # Makes the ids of this object different from those of all others.
        self._suffix, self._count = secrets.token_hex(6), 0

    def new_id(self, ms: int) -> str:
        """Return a new uuid7 with this time, Unix ms."""
        count = self._count = (self._count + 1) & 0xFFFFFF
        time = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}"
        return f"{time}-7{count >> 12:03x}-8{count & 0xFFF:03x}-{self._suffix}"

    def add(self, receipt: Receipt) -> None:
        """Add a receipt."""
        self._connection.execute(INSERT, receipt)

    def numbers(self, guids: list[str]) -> dict[str, int]:
        """Return the number of the present version of each record that exists."""
        return dict(self._connection.execute(NUMBERS, (orjson.dumps(guids).decode(),)))

    def find(self, ident: str) -> Receipt | None:
        """Return the receipt with that id, None if there is none."""
        row = self._connection.execute(GET, (ident,)).fetchone()
        return None if row is None else Receipt(*row)

    def find_end(self, first: str, before: str) -> str:
        """Return the last id that `page` looks at, "" if it reads to the end."""
        return self._connection.execute(END, (first, before, MAX_READ - 1)).get or ""

    def list_ids(self, pipeline: str, input_id: str, period_ms: tuple[int, int]) -> list[str]:
        """Return the ids of the receipts of the answer to an input, which were left in a period."""
        first, before = map(make_time_prefix, period_ms)
        wanted = Wanted(pipeline, input=input_id)
        return [one.id for one in self.page(wanted, first, before, MAX_IDS)]

    def page(self, wanted: Wanted, first: str, before: str, limit: int) -> Iterator[Receipt]:
        """Yield receipts with ids from `first` on and below `before`, the newest first."""
        conditions, values = ["id >= ?", "id < ?", "pipeline = ?"], [first, before, wanted.pipeline]
        for name in ("input", "thread"):
            if value := getattr(wanted, name):
                conditions.append(f"{name} = ?")
                values.append(value)
        if wanted.record:
            conditions.append("instr(found, ?) > 0")
            values.append(f"[{orjson.dumps(wanted.record).decode()},")
        which = " AND ".join(conditions)
        sql = f"SELECT * FROM receipts WHERE {which} ORDER BY id DESC LIMIT {limit:d}"
        for row in self._connection.execute(sql, values):
            yield Receipt(*row)


class ReceiptErasure(ModelErasure):
    """Blanks the texts of receipts that quote what is erased. The ids of the records stay, so that
    `records.uses` still names the answers that used them.
    """

    def erase(self, matcher: Matcher) -> None:
        """Blank the texts that the matcher finds."""
        self._blank(matcher.in_text)

    def silence(self, has_erased: Erases) -> int:
        """Blank the texts with an erased text, and return the number of receipts."""
        return self._blank(lambda text: has_erased(text.encode()))

    def _blank(self, matches: Callable[[str], Any]) -> int:
        run, names = self._connection.execute, ", ".join(TEXTS)
        blanked = 0
        for ident, *texts in list(run(f"SELECT id, {names} FROM receipts")):
            kept = ["" if text and matches(text) else text for text in texts]
            if kept != texts:
                blanked += 1
                sets = ", ".join(f"{name} = ?" for name in TEXTS)
                run(f"UPDATE receipts SET {sets} WHERE id = ?", (*kept, ident))
        return blanked
