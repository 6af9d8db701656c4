"""The context of a user, which an agent reads first: identity, facts and history."""

from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment
from memrelay.memory.models.agent_memory.episodes import recent_episodes
from memrelay.memory.models.agent_memory.table import UserTable
from memrelay.memory.models.agent_memory.user_ids import split_canonical
from memrelay.memory.models.agent_memory.user_records import find_user, view_user
from memrelay.memory.records.data import kept_data

MAX_FACTS, MAX_HISTORY = 20, 5
# Of all values of the facts, as JSON. Later facts are left out.
MAX_FACT_BYTES = 65_536
NO_SUMMARY = "No summary"


@dataclass(frozen=True, slots=True)
class UserFact:
    """A fact about the user."""

    key: str
    value: Any
    type: str
    """The type of knowledge."""


@dataclass(frozen=True, slots=True)
class PastEpisode:
    """An episode of the user."""

    summary: str
    success: bool
    when: Moment
    """When it began."""


@dataclass(frozen=True, slots=True)
class UserContext:
    """Identity, preferences, facts and history of a user."""

    user_id: str | None
    """The canonical id; null if the user has none."""
    is_new: bool
    """Whether the user was unknown until now."""
    facts: tuple[UserFact, ...] = ()
    """At most 20 facts of the scope user, the most used first."""
    history: tuple[PastEpisode, ...] = ()
    """At most 5 episodes of the user, the newest first."""
    canonical_id: str | None = None
    """The canonical id again."""
    display_name: str | None = None
    """The name to show."""
    channel: str | None = None
    """The channel of the user."""
    preferences: dict[str, Any] | None = None
    """Preferences that agents stored."""
    total_conversations: int = 0
    """How often the user was identified."""
    first_seen: Moment | None = None
    """When the user was identified first."""


def user_context(
    tx: Transaction, canonical_id: str, agent_id: str = "", *, is_new: bool = False
) -> UserContext:
    """Return what is known about a user. An agent limits the history to its episodes.

    An unknown user is new and has neither facts nor history.
    """
    place = find_user(tx, canonical_id)
    if place is None:
        return UserContext(canonical_id, True, canonical_id=canonical_id)
    user = view_user(tx, place.whole)
    episodes = recent_episodes(tx, agent_id, user.canonical_id, MAX_HISTORY)
    return UserContext(
        user.canonical_id,
        is_new,
        _facts(tx, user.canonical_id),
        tuple(
            PastEpisode(one.summary or NO_SUMMARY, one.success, one.started_at) for one in episodes
        ),
        user.canonical_id,
        user.display_name,
        split_canonical(user.canonical_id)[0] or None,
        user.preferences,
        user.total_conversations,
        user.first_seen_at,
    )


def _facts(tx: Transaction, user_id: str) -> tuple[UserFact, ...]:
    facts, room = list[UserFact](), MAX_FACT_BYTES
    for record, further in tx.table(UserTable).facts(user_id, MAX_FACTS):
        data = kept_data(record, further)
        fact = UserFact(further.key or "", data.get("value"), data.get("fact_type", ""))
        room -= len(orjson.dumps(fact))
        if room < 0:
            break
        facts.append(fact)
    return tuple(facts)
