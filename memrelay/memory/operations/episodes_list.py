"""episodes.list: lists episodes in pages, the newest first."""

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.episodes import EpisodeView, scope_of, view_record
from memrelay.memory.agents.scopes import OptionalId
from memrelay.memory.agents.users import current_id
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_list import Limit, literal_kind, take_ordered_page
from memrelay.memory.records.data import LARGEST
from memrelay.memory.records.kinds import EPISODE_KIND
from memrelay.memory.sqlite.filters import Conditions, Given
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class ListEpisodes:
    """The episodes to list, and the page."""

    agent_id: OptionalId = ""
    """Only episodes of this agent."""
    user_id: OptionalId = ""
    """Only episodes of the user with this canonical id."""
    session_id: OptionalId = ""
    """Only episodes of this session."""
    workflow_id: OptionalId = ""
    """Only episodes of this workflow."""
    success: bool | None = None
    """Only successful episodes, or only the others."""
    limit: Limit = 50
    """The maximum number of episodes."""
    offset: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    """The number of episodes to skip."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """A page of episodes."""

    items: tuple[EpisodeView, ...]
    total: int
    """The number of episodes on all pages."""


@operation("episodes.list", access="read", mutates=False, home="memories", any_store=True)
def list_episodes(tx: Transaction, wanted: ListEpisodes, context: Context) -> EpisodePage:
    """List episodes in pages, the newest first. Of equal times, the later arrival is first."""
    wanted = replace(wanted, user_id=current_id(tx, wanted.user_id))
    conditions = Conditions(given=literal_kind(EPISODE_KIND, _filter(wanted)))
    window = (wanted.limit, wanted.offset)
    found, total = take_ordered_page(tx, conditions, ("created_at", "desc"), window, context)
    return EpisodePage(tuple(view_record(*one) for one in found), total)


def _filter(wanted: ListEpisodes) -> Given | None:
    """Return the conditions that are set, None if none is."""
    columns = {
        "r.scope": wanted.agent_id and scope_of(wanted.agent_id),
        "r.owner": wanted.user_id,
        "json_extract(r.data, '$.session_id')": wanted.session_id,
        "json_extract(r.data, '$.workflow_id')": wanted.workflow_id,
        "json_extract(r.data, '$.success')": wanted.success,
    }
    given = {name: value for name, value in columns.items() if value not in ("", None)}
    if not given:
        return None
    return Given(" AND ".join(f"{name} = ?" for name in given), tuple(given.values()), {})
