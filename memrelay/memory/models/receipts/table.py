"""The rows of receipts."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from msgspec.structs import replace

from memrelay.memory.engine.erasures import Erases, ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.retention import make_time_prefix
from memrelay.memory.engine.table import StoreTable
from memrelay.memory.models.receipts.packing import MAX_FOUND, Receipt, ReceiptValues, pack, unpack

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store

INSERT = "INSERT INTO receipts(first, last, data) VALUES (?, ?, ?)"
GET = "SELECT data FROM receipts WHERE last >= ?1 AND first <= ?1 ORDER BY last"
# Rows of which `rows` reads the period, at most. That takes about 10 ms.
MAX_ROWS = 20_000
# Larger than the number of any row.
LAST_ROW = (1 << 63) - 1
# Ids that `list_ids` returns, at most.
MAX_IDS = 20
OLDEST = f"min(?1, (SELECT max(n) FROM receipts)) - {MAX_ROWS}"
ROWS = (
    f"SELECT n, data FROM receipts WHERE n <= ?1 AND n > {OLDEST} "
    "AND last >= ?2 AND first < ?3 ORDER BY n DESC"
)
NEXT = f"SELECT n FROM receipts WHERE n <= {OLDEST} ORDER BY n DESC LIMIT 1"
NUMBERS = "SELECT guid, number FROM records WHERE guid IN (SELECT value FROM json_each(?))"
NUMBER_THEN = (
    "SELECT number FROM records WHERE guid = ?1 AND born <= ?2 UNION ALL "
    "SELECT number FROM versions WHERE guid = ?1 AND born <= ?2 AND ended > ?2 AND length >= 0 "
    "LIMIT 1"
)
# Pipeline, actor, agent, message, thread.
About = tuple[str, str, str, str, str]
# Operation, question, (guid, score) of the records, values of the Fingerprint.
NewRead = tuple[str, Any, Sequence[tuple[str, float | None]], tuple[int, str, str, str]]
# Texts that a user may have written, besides the question.
TEXTS = ("actor", "thread", "input")


class Wanted(NamedTuple):
    """Which receipts to return. "" stands for any."""

    pipeline: str
    record: str = ""
    input: str = ""
    thread: str = ""

    def matches(self, receipt: Receipt) -> bool:
        """Return whether a receipt is wanted."""
        return (
            receipt.pipeline == self.pipeline
            and self.input in ("", receipt.input)
            and self.thread in ("", receipt.thread)
            and (not self.record or any(guid == self.record for guid, _, _ in receipt.found))
        )


class ReceiptTable(StoreTable):
    """Adds and reads receipts inside the store's open transaction.

    Receipts of blocks are buffered until `flush`, which the feature `receipts` calls.
    """

    READS = ("find", "find_next", "find_number", "list_ids", "new_id", "numbers", "rows")

    def __init__(self, store: "Store") -> None:
        super().__init__(store)
        # Makes the ids of this object different from those of all others.
        self._suffix, self._count = secrets.token_hex(6), 0
        self._versions = store.records.versions
        self._new: list[tuple[int, int, About, NewRead]] = []

    def reset(self) -> None:
        """Drop buffered receipts after a rollback."""
        self._new = []

    def new_id(self, ms: int) -> str:
        """Return a new uuid7 with this time, Unix ms."""
        count = self._count = (self._count + 1) & 0xFFFFFF
        time = f"{ms >> 16:08x}-{ms & 0xFFFF:04x}"
        return f"{time}-7{count >> 12:03x}-8{count & 0xFFF:03x}-{self._suffix}"

    def add(self, ms: int, about: About, read: NewRead) -> None:
        """Buffer the receipt of a read of a time, Unix ms."""
        self._new.append((ms, self._versions.last_change, about, read))

    def add_all(self, receipts: Sequence[Receipt | ReceiptValues]) -> None:
        """Add a row with receipts. The values of each begin with its id."""
        ids = [one.id if isinstance(one, Receipt) else one[0] for one in receipts]
        self._connection.execute(INSERT, (min(ids), max(ids), pack(receipts)))

    def flush(self) -> None:
        """Add a row with the buffered receipts."""
        if self._new:
            new, self._new = self._new, []
            self.add_all([self._make_values(*one) for one in new])

    def _make_values(self, ms: int, change: int, about: About, read: NewRead) -> ReceiptValues:
        pipeline, actor, agent, message, thread = about
        operation, question, records, fingerprint = read
        found = [(guid, None, score) for guid, score in records[:MAX_FOUND]]
        left_out = len(records) - len(found)
        return (
            *(self.new_id(ms), change, pipeline, operation, question),
            *(actor, agent, message, thread, found, left_out, fingerprint),
        )

    def find_number(self, guid: str, change: int) -> int | None:
        """Return the number of the version that a record had after a change, None if it is no
        longer known.
        """
        found: int | None = self._connection.execute(NUMBER_THEN, (guid, change)).get
        return found

    def numbers(self, guids: list[str]) -> dict[str, int]:
        """Return the number of the present version of each record that exists."""
        return dict(self._connection.execute(NUMBERS, (orjson.dumps(guids).decode(),)))

    def find(self, ident: str) -> Receipt | None:
        """Return the receipt with that id, None if there is none."""
        for (data,) in self._connection.execute(GET, (ident,)):
            for one in unpack(data):
                if one.id == ident:
                    return one
        return None

    def rows(self, last: int, since: str, before: str) -> Iterator[tuple[int, list[Receipt]]]:
        """Yield (number, receipts) of the rows up to number `last` that may have ids from `since`
        on and below `before`, the newest first, among MAX_ROWS numbers.
        """
        for n, data in self._connection.execute(ROWS, (last, since, before)):
            yield n, unpack(data)

    def find_next(self, last: int) -> int | None:
        """Return the number of the first row that `rows` does not read, None if there is none."""
        found: int | None = self._connection.execute(NEXT, (last,)).get
        return found

    def list_ids(self, pipeline: str, input_id: str, period_ms: tuple[int, int]) -> list[str]:
        """Return the ids of the receipts of the answer to an input, which were left in a period."""
        first, before = map(make_time_prefix, period_ms)
        wanted, found = Wanted(pipeline, input=input_id), list[str]()
        for _, receipts in self.rows(LAST_ROW, first, before):
            found += [one.id for one in receipts if wanted.matches(one)]
            if len(found) >= MAX_IDS:
                break
        return found[:MAX_IDS]


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
        run, count = self._connection.execute, 0
        for (n,) in list(run("SELECT n FROM receipts ORDER BY n")):
            receipts = unpack(run("SELECT data FROM receipts WHERE n = ?", (n,)).get)
            blanked = [_blank_receipt(one, matches) for one in receipts]
            changed = sum(one is not other for one, other in zip(receipts, blanked, strict=True))
            if changed:
                count += changed
                run("UPDATE receipts SET data = ? WHERE n = ?", (pack(blanked), n))
        return count


def _blank_receipt(receipt: Receipt, matches: Callable[[str], Any]) -> Receipt:
    """Return the receipt itself, or a copy without the texts that match."""
    gone: dict[str, Any] = {
        name: "" for name in TEXTS if (text := getattr(receipt, name)) and matches(text)
    }
    if receipt.question is not None and matches(orjson.dumps(receipt.question).decode()):
        gone["question"] = None
    return replace(receipt, **gone) if gone else receipt
