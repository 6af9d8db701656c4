"""recall: return what an agent knows under a key, or what matches a query (docs/agents.md)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from memrelay.blocks.agent_memory_args import AgentMemoryArgs, find_chat, make_ids
from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import make_context, parse_object, within_message
from memrelay.blocks.registry import block
from memrelay.bus.message import Message
from memrelay.memory.errors import RecordDamaged, Refused
from memrelay.memory.models.agent_memory.episodes import recent_episodes
from memrelay.memory.models.agent_memory.facts import (
    Confidence,
    FactName,
    FactView,
    SearchFacts,
    recall_facts,
    search_facts,
    value_text,
    visible_facts,
)
from memrelay.memory.models.agent_memory.procedures import match_procedure
from memrelay.memory.models.agent_memory.scopes import GLOBAL, GivenId, Ids
from memrelay.memory.operations import Read
from memrelay.memory.search.text.contentless import has_content

# Episodes that a query is compared with.
NEWEST = 5
MAX_QUERY_CHARACTERS = 1024
ENGLISH = "english"


class RecallArgs(AgentMemoryArgs):
    """The text is a key, or `{"key": ..., "query": ...}`. The key wins. An empty text lists the
    facts. Visible facts are global, those of the agent, and those of the user and the session that
    trusted fields of the message name. Only the episodes of that user are visible."""

    memory_type: Literal["facts", "procedures", "episodes", "all"] = "facts"
    """The kinds of memory that a query searches."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Maximum number of facts."""
    min_confidence: Confidence = 0.5
    """Minimum confidence of the facts that a search finds, 0 to 1."""
    agent_id: GivenId = GLOBAL
    """The agent whose facts, procedures and episodes are visible. `global` covers the procedures
    and episodes of all agents."""

    def includes(self, memory_type: str) -> bool:
        return self.memory_type in (memory_type, "all")


class _Request(NamedTuple):
    key: str
    query: str


@block("recall", RecallArgs)
def recall(call: Call, args: RecallArgs) -> Message:
    """Return `{key} = {value}`, an array of what was found, or a sentence that nothing was
    found."""
    try:
        ids = make_ids(call, args.agent_id)
        return within_message(call, _answer(call, args, ids, _parse(call.text)))
    except (Refused, RecordDamaged) as error:
        return call.reply(f"Error reading memory: {error}")


def _parse(text: str) -> _Request:
    """Return the key and the query of a text. Raises Refused."""
    request = parse_object(text)
    if request is None:
        return _Request(text.strip(), "")
    fields = [request.get(name) or "" for name in ("key", "query")]
    if not all(isinstance(value, str) for value in fields):
        raise Refused('`key` and `query` are texts, like {"key": "color"}')
    return _Request(*(value.strip() for value in fields))


def _answer(call: Call, args: RecallArgs, ids: Ids, request: _Request) -> Message:
    if request.key:
        return _answer_key(call, args, ids, request.key)
    if request.query:
        results = _search(call, args, ids, request.query)
        nothing = f"No memories found for query: {request.query}"
        return call.reply_json(results) if results else call.reply(nothing)
    listed = _list_newest(call, args, ids)
    return (
        call.reply_json(_shown(listed))
        if listed
        else call.reply("Memory is empty — no facts stored.")
    )


def _answer_key(call: Call, args: RecallArgs, ids: Ids, key: str) -> Message:
    """Answer with the fact of the key, else with facts that a search for the key finds."""
    name = FactName(key, *ids)
    fact = recall_facts(call.tx, name, make_context(call))
    if fact is not None:
        if call.reads is not None:
            call.reads.append(Read("facts.get", asdict(name), [(fact.id, None)]))
        return call.reply(f"{key} = {value_text(fact.value)}")
    facts = _search_facts(call, args, ids, key)
    return call.reply_json(facts) if facts else call.reply(f"No memory found for key: {key}")


def _search(call: Call, args: RecallArgs, ids: Ids, query: str) -> list[dict[str, Any]]:
    """Return the facts, the procedure and the episodes that match a query.

    A query without content, such as `what do you know about me?`, gets the newest facts.
    """
    results = _search_facts(call, args, ids, query) if args.includes("facts") else []
    if not results and args.includes("facts") and not has_content(query, ENGLISH):
        results = _shown(_list_newest(call, args, ids))
    if args.includes("procedures"):
        procedure = match_procedure(call.tx, args.agent_id, query)
        if procedure is not None:
            _note(call, "procedure", query, [procedure.id])
            named = {"name": procedure.name, "description": procedure.description}
            results.append({"type": "procedure", **named})
    # An episode without a user may quote any person, and a caller without a user may be any person.
    # Others of a chat were not part of the user's own conversations.
    if args.includes("episodes") and ids.user_id and not find_chat(call):
        newest = recent_episodes(call.tx, args.agent_id, ids.user_id, min(args.limit, NEWEST))
        found = [one for one in newest if query.casefold() in (one.summary or "").casefold()]
        if found:
            _note(call, "episodes", query, [one.id for one in found])
        results += [{"type": "episode", "summary": one.summary} for one in found]
    return results


def _search_facts(call: Call, args: RecallArgs, ids: Ids, query: str) -> list[dict[str, Any]]:
    if len(query) > MAX_QUERY_CHARACTERS:
        raise Refused(f"the query has {len(query)} characters; use at most {MAX_QUERY_CHARACTERS}")
    search = SearchFacts(query, *ids, (), args.min_confidence, args.limit)
    facts = search_facts(call.tx, search, make_context(call)).items
    if call.reads is not None:
        found = [(fact.id, None) for fact in facts]
        call.reads.append(Read("facts.search", asdict(search), found))
    return _shown(facts)


def _list_newest(call: Call, args: RecallArgs, ids: Ids) -> list[FactView]:
    facts = visible_facts(call.tx, ids, args.limit)
    _note(call, "newest facts", call.text, [fact.id for fact in facts])
    return facts


def _note(call: Call, part: str, query: str, guids: list[str]) -> None:
    """Note a part of the answer that no operation reads alone."""
    if call.reads is not None:
        call.reads.append(
            Read(f"recall ({part})", {"query": query}, [(guid, None) for guid in guids])
        )


def _shown(facts: Iterable[FactView]) -> list[dict[str, Any]]:
    return [{"key": fact.key, "value": fact.value, "confidence": fact.confidence} for fact in facts]
