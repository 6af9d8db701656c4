"""A damaged store is replaced by a new one with what can still be read of it."""

from pathlib import Path
from typing import NamedTuple

from memory.drafts import drafted
from memory.replacement import replace
from memory.sqlite.connection import open_store_file
from memory.sqlite.copy import accept_texts, inspect
from memory.sqlite.salvage import KEYS, salvage_into


class Salvaged(NamedTuple):
    """What became of a store."""

    path: Path
    rows: dict[str, int]  # by table
    guids: list[str]  # of records whose text is not what was written
    kept: Path | None  # where the damaged file is now


def salvage_store(path: Path, *, empty: bool) -> Salvaged:
    """Replaces the store at `path`, which nobody may have open. Raises StoreBroken where nothing of
    it can be read."""
    with drafted(path, "salvaged") as draft:
        if empty or not path.exists():
            open_store_file(draft).close()
            rows, guids = dict.fromkeys(KEYS, 0), []
        else:
            rows = salvage_into(draft, path)
            guids = inspect(draft).guids
            accept_texts(
                draft
            )  # whoever salvages is told of them; a scrub and a backup would name them for ever
        return Salvaged(path, rows, guids, replace(path, draft))
