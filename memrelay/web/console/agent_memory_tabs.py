"""The tabs of the page /memories: their columns, cells and filters."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from memrelay.memory.models.agent_memory.facts import FACT_TYPES
from memrelay.memory.models.agent_memory.scopes import SCOPES
from memrelay.web.pipelit.paths import CHECKPOINTS, EPISODES, FACTS, PROCEDURES, USERS, Section

Json = dict[str, Any]
MAX_CHARACTERS = 60
MAX_ID_CHARACTERS = 12
NONE = "—"


class Cell(NamedTuple):
    """A table cell. `sort` is "", "badge", "code", "number" or "time"."""

    text: str
    sort: str = ""


class Choice(NamedTuple):
    """A filter of a tab: the values that a visitor can choose from, or none for a text field."""

    name: str
    label: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab of the page. Its rows are the items of a section. `empty` is the text without rows."""

    section: Section
    columns: tuple[str, ...]
    empty: str
    to_cells: Callable[[Json], list[Cell]]
    filters: tuple[Choice, ...] = ()

    @property
    def name(self) -> str:
        """The name in the URL."""
        return self.section.noun

    @property
    def title(self) -> str:
        """The name that the page shows."""
        return self.section.noun.title()

    @property
    def deletion(self) -> str:
        """The path that deletes the selected rows."""
        return f"{self.section.paths[0]}/batch-delete/"

    @property
    def ids(self) -> str:
        """The field of a deletion that holds the ids of the rows."""
        return "checkpoint_ids" if self.section is CHECKPOINTS else "ids"


def shorten(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "..."


def to_text(value: Any) -> str:
    """Return a fact's value as text; objects and arrays as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _name_scope(fact: Json) -> str:
    """Return the scope of a fact with the agent, user or session that it belongs to."""
    owner = fact.get(f"{fact['scope']}_id")
    return f"{fact['scope']}: {shorten(owner)}" if owner else str(fact["scope"])


def _fact_cells(fact: Json) -> list[Cell]:
    return [
        Cell(fact["key"]),
        Cell(shorten(to_text(fact["value"]))),
        Cell(_name_scope(fact), "badge"),
        Cell(fact["fact_type"], "badge"),
        Cell(f"{fact['confidence']:.0%}", "number"),
        Cell(f"{fact['access_count']:,}", "number"),
        Cell(fact["updated_at"], "time"),
    ]


def _episode_cells(episode: Json) -> list[Cell]:
    took_ms = episode["duration_ms"]
    return [
        Cell(episode["agent_id"]),
        Cell(episode["trigger_type"], "badge"),
        Cell("Yes" if episode["success"] else "No", "badge"),
        Cell(shorten(episode["summary"] or NONE)),
        Cell(episode["started_at"], "time"),
        Cell(NONE if took_ms is None else f"{took_ms / 1000:.1f}s", "number"),
    ]


def _checkpoint_cells(checkpoint: Json) -> list[Cell]:
    step = checkpoint["step"]
    return [
        Cell(checkpoint["thread_id"]),
        Cell(_short_id(checkpoint["checkpoint_id"]), "code"),
        Cell(_short_id(checkpoint["parent_checkpoint_id"] or ""), "code"),
        Cell(NONE if step is None else str(step), "number"),
        Cell(checkpoint["source"] or NONE, "badge"),
        Cell(_format_bytes(checkpoint["blob_size"]), "number"),
    ]


def _procedure_cells(procedure: Json) -> list[Cell]:
    return [
        Cell(procedure["name"]),
        Cell(procedure["agent_id"]),
        Cell(procedure["procedure_type"], "badge"),
        Cell(f"{procedure['times_used']:,}", "number"),
        Cell(f"{procedure['success_rate']:.0%}", "number"),
        Cell("Yes" if procedure["is_active"] else "No", "badge"),
    ]


def _user_cells(user: Json) -> list[Cell]:
    return [
        Cell(user["display_name"] or NONE),
        Cell(user["canonical_id"], "code"),
        Cell(user["telegram_id"] or NONE),
        Cell(user["email"] or NONE),
        Cell(f"{user['total_conversations']:,}", "number"),
        Cell(user["last_seen_at"], "time"),
    ]


def _short_id(ident: str) -> str:
    return f"{ident[:MAX_ID_CHARACTERS]}…" if len(ident) > MAX_ID_CHARACTERS else ident or NONE


def _format_bytes(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size / 1024:.1f} KB" if size < 1 << 20 else f"{size / (1 << 20):.1f} MB"


TABS = {
    tab.name: tab
    for tab in (
        Tab(
            FACTS,
            ("Key", "Value", "Scope", "Type", "Confidence", "Accessed", "Updated"),
            "No facts stored yet",
            _fact_cells,
            (Choice("scope", "Scope", SCOPES), Choice("fact_type", "Type", FACT_TYPES)),
        ),
        Tab(
            EPISODES,
            ("Agent", "Trigger", "Success", "Summary", "Started", "Duration"),
            "No episodes recorded yet",
            _episode_cells,
            (Choice("agent_id", "Agent"),),
        ),
        Tab(
            CHECKPOINTS,
            ("Thread ID", "Checkpoint ID", "Parent", "Step", "Source", "Blob Size"),
            "No checkpoints found",
            _checkpoint_cells,
            (Choice("thread_id", "Thread"),),
        ),
        Tab(
            PROCEDURES,
            ("Name", "Agent", "Type", "Used", "Success Rate", "Active"),
            "No procedures learned yet",
            _procedure_cells,
            (Choice("agent_id", "Agent"),),
        ),
        Tab(
            USERS,
            ("Name", "Canonical ID", "Telegram", "Email", "Conversations", "Last Seen"),
            "No users identified yet",
            _user_cells,
        ),
    )
}
