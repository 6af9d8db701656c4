"""What models share to declare lines of an export: types of fields, base classes of rows and parts
of records, and the placeholder for the pipeline's uid.
"""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, Self

from msgspec import Meta, Struct

from memrelay.memory.engine.records import RecordTable
from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.records.admission import admit_names
from memrelay.memory.records.data import LARGEST, SMALLEST

# The kind of a row for policies.
ROW = "row"
Int = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)]
# The upper bounds leave space for later changes.
Number = Annotated[int, Meta(ge=1, le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Flag = Annotated[int, Meta(ge=0, le=1)]
# Unix ms, in the range that the API can return.
Time = Annotated[int, Meta(ge=0, le=LAST_MS)]
Guid = Annotated[str, Meta(min_length=1, max_length=128)]
# The placeholder of the uid may be longer than the uid.
Id = Annotated[str, Meta(min_length=1, max_length=128)]


class ExportedRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of a table without records. Its fields are the columns, as stored."""

    def normalize(self) -> Self:
        """Return the row with its JSON as a store writes it.

        Raises ValueError and MsgspecError: a column has other JSON.
        """
        return self

    def complete(self, find_existing: Callable[[], Self | None], now_ms: int) -> Self:
        """Return the row with the values that another system lacks.

        They come from the row with its key, which `find_existing` returns if the store has it.
        """
        return self

    def admit(self, records: RecordTable) -> Self:
        """Return the row as the policies of the store let it in. By default, its texts are names
        that cannot change. Raises PolicyStop.
        """
        values = (getattr(self, name) for name in self.__struct_fields__)
        texts = [value for value in values if isinstance(value, str)]
        admit_names(records, ROW, texts)
        return self

    def owner_uid(self) -> str | None:
        """Return the uid of the pipeline that owns the row by its id, None if any may own it."""
        return None

    def describe(self, key: tuple[str, ...]) -> str:
        """Return the name of the row in messages."""
        return " of ".join(repr(getattr(self, name)) for name in reversed(key))


class RecordPart(Struct, frozen=True, forbid_unknown_fields=True):
    """Data of a record in another table, which is exported with the record.

    Its fields are the columns, in this order.
    """

    TABLE: ClassVar[str]
    COLUMNS: ClassVar[tuple[str, ...]]
    # SQL on the table: whether its row says more than no row.
    CONDITION: ClassVar[str]
    # SQL that inserts or replaces the row, with the guid and scope of the record and the fields.
    WRITE: ClassVar[str]


class ExportedLine(Protocol):
    """A line of an export, as the functions read it that write the format of another system."""

    @property
    def record(self) -> Any:
        """Return the record, None for other lines. Its fields are the columns."""

    @property
    def kind(self) -> str:
        """Return the kind of the record, "" for other lines."""

    @property
    def row(self) -> ExportedRow | None:
        """Return the row of a model's table, None for other lines."""


class LineWriter(Protocol):
    """A file that accepts lines."""

    def write(self, line: bytes, /) -> int:
        """Write one line."""


class Written(NamedTuple):
    """The number of objects in a file for another system, and their name."""

    total: int
    noun: str
