"""Erase a user: records with their history, threads, and messages that quote the user."""

from dataclasses import dataclass

import orjson

from memrelay.memory.engine.conditions import Conditions, Given
from memrelay.memory.engine.quotes import Quotes
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import StoredRecord
from memrelay.memory.models.agent_memory.checkpoint_table import CheckpointTable
from memrelay.memory.models.agent_memory.conversations import delete_user_threads
from memrelay.memory.models.agent_memory.table import IDENTIFIERS, UserTable
from memrelay.memory.models.agent_memory.user_ids import split_canonical
from memrelay.memory.models.agent_memory.user_records import data_of, find_user

BELONGS = (
    "(r.owner IN (SELECT value FROM json_each(?1)) OR r.scope IN (SELECT 'user:' || value "
    "FROM json_each(?1)))"
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Numbers of erased data in the store. records.erasures reports the rest."""

    records: int
    """The number of records."""
    versions: int
    """The number of their earlier states."""
    checkpoints: int
    """The number of checkpoints in the user's threads."""


def forget_user(tx: Transaction, user_id: str, about: tuple[int, str, str]) -> Forgotten:
    """Erase a user, the users merged into it, and everything that belongs to them.

    A user without a record is erased too: its id can own facts and episodes. `about` is (asked_at
    in Unix ms, actor, reason).
    """
    users = _users_of(tx, user_id)
    ids = [user_id, *(place.whole.key or "" for place in users)]
    names = _names_of(tx, ids, users)
    guids = tx.erasures.matching((), _belong_to(ids), "")
    quotes = Quotes(names)
    checkpoints = sum(delete_user_threads(tx.table(CheckpointTable), one) for one in ids)
    tx.erasures.erase_elsewhere(quotes)
    erased = dict.fromkeys([*guids, *_quoting_turns(tx, quotes)])
    erased |= dict.fromkeys(_facts_of(tx, list(erased), quotes))
    return Forgotten(*tx.erasures.erase(list(erased), "", about, names), checkpoints)


def _users_of(tx: Transaction, user_id: str) -> list[StoredRecord]:
    """Return the user at the end of the chain of merges, and all users merged into it."""
    place = find_user(tx, user_id)
    found = {} if place is None else {place.guid: place}
    waiting = list(found.values())
    while waiting:
        for merged in tx.table(UserTable).merged_into(waiting.pop().whole.key or ""):
            if merged.guid not in found:
                found[merged.guid] = merged
                waiting.append(merged)
    return list(found.values())


def _names_of(tx: Transaction, ids: list[str], users: list[StoredRecord]) -> list[str]:
    """Return the canonical ids and all identifiers that the users have or had."""
    names = [name for user_id in ids for name in (user_id, split_canonical(user_id)[1])]
    for place in users:
        for state in tx.table(UserTable).states(place):
            data = data_of(state)
            names += [str(data[name]) for name in IDENTIFIERS if data.get(name)]
    return list(dict.fromkeys(names))


def _belong_to(ids: list[str]) -> Conditions:
    given = orjson.dumps(ids).decode()
    sql = BELONGS.replace("?1", "?")
    return Conditions(given=Given(sql, (given, given), {}))


def _quoting_turns(tx: Transaction, quotes: Quotes) -> list[str]:
    """Return the guids of turns and steps that quote an identifier, or have it as their source."""
    return [
        guid
        for name in quotes.names
        for guid, content, source, data in tx.table(UserTable).turns(name)
        if source.lower() in quotes.names or quotes.in_text(content) or quotes.in_text(data)
    ]


def _facts_of(tx: Transaction, guids: list[str], quotes: Quotes) -> list[str]:
    """Return the guids of facts that quote an identifier, or were learned in an erased episode."""
    sources = {*guids, *tx.table(UserTable).executions(guids)}
    return [
        guid
        for guid, content, data in tx.table(UserTable).all_facts()
        if _source_of(data) in sources or quotes.in_text(content) or quotes.in_text(data)
    ]


def _source_of(data: str) -> str:
    """Return the source_episode_id in the data of a fact, "" if it has none."""
    found = orjson.loads(data or "{}")
    return str(found.get("source_episode_id") or "") if isinstance(found, dict) else ""
