"""episodes.rate: stores a person's rating of an episode."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.episodes import EpisodeView, fetch_episode, rate_episode
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_update import check_version
from memrelay.memory.records.view import Guid, Reason, Versions
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class RateEpisode:
    """A rating."""

    id: Guid
    """The id of the episode."""
    rating: Annotated[int, Field(ge=-10, le=10)] | None = None
    """The rating, for example 1 to 5, or -1 and 1 for thumbs."""
    feedback: Annotated[str, Field(max_length=4096)] = ""
    """A comment."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the episode has one of these versions."""


@operation("episodes.rate", access="write", mutates=True, home="memories", any_store=True)
def rate(tx: Transaction, given: RateEpisode, context: Context) -> EpisodeView:
    """Store a rating and a comment. Missing fields stay as before.

    Raises RecordNotFound: when the episode does not exist.
    Raises VersionConflict: when the episode has another version.
    """
    place = fetch_episode(tx, given.id)
    check_version(place.whole.record, place.whole.further, given.if_version)
    return rate_episode(tx, place, given.rating, given.feedback)
