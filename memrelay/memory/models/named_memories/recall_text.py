"""The text of recalled entries for a prompt: dated lines, the newest of a topic first."""

import re
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.models.named_memories.dedup.similarity import contradicts, have_same_topic
from memrelay.memory.models.named_memories.entry_text import normalized
from memrelay.memory.models.named_memories.table import EntryTable
from memrelay.memory.records.ids import guid_of

FENCE = re.compile(r"<(?=\s*+(?:/\s*+)?knowledge)", re.IGNORECASE)
# Entries and lines of a text that are compared with each other; a comparison takes 0.1 ms.
MOST_COMPARED = 24
MOST_LINES_COMPARED = 48


class RecalledLine(NamedTuple):
    """Lines of an entry that were written together, and when, Unix ms."""

    memory: str
    text: str
    at_ms: int


class RecalledEntry(NamedTuple):
    """An entry to recall. `lines` are the newest first."""

    ident: str
    memory: str
    heading: str
    lines: tuple[RecalledLine, ...]
    # Whether it is valid at the time of the search.
    is_valid: bool = True

    @property
    def at_ms(self) -> int:
        """When the entry was last changed or confirmed, Unix ms."""
        return self.lines[0].at_ms


def recall_entry(tx: Transaction, ident: str, heading: str) -> RecalledEntry | None:
    """Return an entry with the times of its lines; None if it does not exist."""
    stored = tx.records.by_guid(guid_of("me", tx.memory_id, ident))
    if stored is None:
        return None
    state = stored.state
    blocks = _date_blocks(tx, state)
    # A confirmation is of what the entry states last.
    confirmed = tx.table(EntryTable).confirmed(state.guid).last or 0
    text, at_ms = blocks[0]
    blocks[0] = (text, max(at_ms, confirmed))
    lines = tuple(RecalledLine(state.scope, text, at_ms) for text, at_ms in blocks)
    return RecalledEntry(ident, state.scope, heading, lines)


def order_by_topic(entries: Sequence[RecalledEntry]) -> list[RecalledEntry]:
    """Return the entries in their order, except that the newest of a topic is the first of it.

    Entries that are not valid stay after all others.
    """
    last = [entry for entry in entries if not entry.is_valid]
    if last:
        return order_by_topic([entry for entry in entries if entry.is_valid]) + last
    ordered: list[RecalledEntry] = []
    for entry in entries[:MOST_COMPARED]:
        at = next(
            (
                at
                for at, other in enumerate(ordered)
                if other.at_ms < entry.at_ms and _is_same_topic(entry, other)
            ),
            len(ordered),
        )
        ordered.insert(at, entry)
    return ordered + list(entries[MOST_COMPARED:])


def find_outdated(entries: Sequence[RecalledEntry]) -> set[RecalledLine]:
    """Return the lines that a newer one of the same memory contradicts, and those of entries that
    are not valid.
    """
    ended = {line for entry in entries if not entry.is_valid for line in entry.lines}
    lines = [line for entry in entries if entry.is_valid for line in entry.lines]
    lines = lines[:MOST_LINES_COMPARED]
    return ended | {
        line
        for line in lines
        if any(
            newer.at_ms > line.at_ms
            and newer.memory == line.memory
            and contradicts(newer.text, line.text)
            for newer in lines
        )
    }


def write_entry_text(
    entry: RecalledEntry, outdated: set[RecalledLine], zone: tzinfo, *, apart: bool
) -> str:
    """Return the heading, and each line with its day in the zone. Text cannot end the fence.

    With `apart`, the days have lines of their own, so that SOAT's lines stay as they are.
    """
    before = "\n  " if apart else " "
    lines = []
    for line in entry.lines:
        day = datetime.fromtimestamp(line.at_ms / 1000, zone).date()
        lines.append(f"{escape_fence(line.text)}{before}({day}{', outdated' * (line in outdated)})")
    return f"{entry.heading} " + "\n  ".join(lines) + "\n"


def escape_fence(content: str) -> str:
    """Return text that cannot end the fence. Further lines are indented."""
    return FENCE.sub("&lt;", "\n  ".join(content.splitlines()))


def _is_same_topic(entry: RecalledEntry, other: RecalledEntry) -> bool:
    return entry.memory == other.memory and have_same_topic(
        entry.lines[0].text, other.lines[0].text
    )


def _date_blocks(tx: Transaction, state: State) -> list[tuple[str, int]]:
    """Return the lines of an entry with the times at which they were written, the newest first.

    Lines that were written together keep their order.
    """
    if "\n" not in state.content:
        return [(state.content, state.updated_at)]
    lines = state.content.split("\n")
    written = dict.fromkeys(map(normalized, lines), state.created_at)
    undated, newer = set(written), lines
    for version in tx.records.versions.of(state.guid, state.content, state.number):
        older = version.state.content.split("\n") if version.there else []
        known = {normalized(line) for line in older}
        if older and normalized(older[-1]) != normalized(newer[-1]):
            known.discard(normalized(newer[-1]))  # it moved to the end then
        for line in {normalized(line) for line in newer} - known:
            if line in undated:
                written[line] = version.act.now_ms
                undated.discard(line)
        newer = older or newer
    blocks: dict[int, list[str]] = {}
    for line in lines:
        blocks.setdefault(written[normalized(line)], []).append(line)
    return [("\n".join(blocks[at_ms]), at_ms) for at_ms in sorted(blocks, reverse=True)]
