"""mem0: the JSON of `get_all`, a list, JSON lines, or an export of the platform."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memrelay.memory.transfer.importers.json_items import begins_with, list_of, read_items
from memrelay.memory.transfer.importers.source import (
    Fact,
    Fault,
    LeftOut,
    SourceInput,
    SourceItem,
    fields_of,
    read_content,
    read_expiry,
    read_object,
    read_text,
    read_time,
    source,
)

NAME = "mem0"
LISTS = ("results", "memories", "relations")
# Fields that a record has too, and the score of a search.
PLACED = frozenset(
    ("memory", "metadata", "created_at", "updated_at", "expiration_date", "user_id", "score")
)
SCOPES = ("user", "agent", "run", "app")
# The names of the package for TypeScript.
CAMEL_CASE = {
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "expirationDate": "expiration_date",
    **{f"{name}Id": f"{name}_id" for name in SCOPES},
}
# The key in `data` of all other fields.
OTHERS = NAME


def detect(path: Path) -> bool:
    return begins_with(
        path,
        "memory hash",
        "memory user_id",
        "memory agent_id",
        "memory run_id",
        "memory app_id",
        "memory userId",
    )


@source(NAME, detect)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the memories of a file."""
    for position, value in read_items(source_input.file, *LISTS):
        if isinstance(value, Fault):
            yield value
        elif list_of(position) == "relations":
            yield Fault(position, "relations of the graph memory are not imported")
        else:
            yield _fact(position, value)


def _fact(position: str, value: Any) -> SourceItem:
    try:
        fields = fields_of(value)
        text = read_content(fields, "memory")
        fields = {CAMEL_CASE.get(name, name): one for name, one in fields.items()}
        user, agent, run, app = (read_text(fields, f"{name}_id") for name in SCOPES)
        about = user or agent or run or app
        return Fact(
            position=position,
            id=read_text(fields, "id") or "\n".join((about, text)),
            text=text,
            memory=f"{NAME}/{about}" if about else NAME,
            owner=user or None,
            thread=run or None,
            created_at=read_time(fields.get("created_at")),
            updated_at=read_time(fields.get("updated_at")),
            expires_at=read_expiry(fields.get("expiration_date")),
            data=_data_of(fields),
        )
    except LeftOut as error:
        return Fault(position, str(error))


def _data_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata, and below `mem0` all other fields."""
    metadata = read_object(fields, "metadata")
    others = {
        name: value
        for name, value in fields.items()
        if name not in PLACED and value not in (None, "", [], {})
    }
    return {**metadata, **({OTHERS: others} if others else {})}
