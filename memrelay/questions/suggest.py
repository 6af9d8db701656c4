"""Propose golden questions from receipts: what was asked most, with what is found now."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args

import orjson
import yaml

from memrelay.questions.file import OWN_FIELDS, InvalidQuestions, read_questions
from memrelay.questions.model import MAX_K, Json, SearchName
from memrelay.questions.run import Call, Found, Search, ask_all

MAX_RECEIPTS = 2_000
MAX_SUGGESTED = 50
PER_PAGE = 100
# The first result now may be found a little later after a change.
MAX_RANK = 3
MAX_TEXT = 200  # characters of a result
# Fields of an operation that change no result.
IGNORED = ("wait", "explain", "receipt")
HEADING = (
    "# Proposed from the receipts of the pipeline: what was asked most, first. Each question\n"
    "# expects what it finds now. Check that this is right.\n"
)


async def suggest(search: Search) -> str:
    """Return a file of golden questions in YAML.

    Raises LookupError: no receipt has a question. Raises what `search` raises.
    """
    proposed = list(_propose(await _list_receipts(search)))[:MAX_SUGGESTED]
    if not proposed:
        raise LookupError(
            "no receipt has a question of a search; let the bundle keep receipts with questions"
        )
    questions = read_questions(_write([one | {"nothing": True} for one in proposed]))
    outcomes = await ask_all(questions, search)
    expected = [
        one | _expect(outcome.found)
        for one, outcome in zip(proposed, outcomes, strict=True)
        if not outcome.error
    ]
    listed = yaml.safe_dump({"questions": expected}, sort_keys=False, allow_unicode=True, width=100)
    return HEADING + listed


async def _list_receipts(search: Search) -> list[Json]:
    """Return the newest receipts."""
    found: list[Json] = []
    page: Json = {"limit": PER_PAGE}
    for _ in range(MAX_RECEIPTS // PER_PAGE):
        output = await search(Call("receipts.list", page))
        found += output["items"]
        if output["next_cursor"] is None:
            break
        page = page | {"cursor": output["next_cursor"]}
    return found


def _propose(receipts: Iterable[Json]) -> Iterable[Json]:
    """Yield the questions of receipts, the most frequent first, without what they must find."""
    counts = Counter(
        orjson.dumps(proposed, option=orjson.OPT_SORT_KEYS)
        for one in receipts
        if (proposed := _read_question(one)) is not None
    )
    for text, _ in counts.most_common():
        proposed = orjson.loads(text)
        try:
            read_questions(_write([proposed | {"nothing": True}]))
        except InvalidQuestions:
            # For example, the search of several memories.
            continue
        yield {"question": proposed.pop("question"), **proposed}


def _read_question(receipt: Json) -> Json | None:
    """Return the question of a receipt, None if it has none, or is not of a search."""
    asked: Json = receipt["question"] or {}
    query = asked.get("query")
    if receipt["operation"] not in get_args(SearchName) or not query:
        return None
    given = {name: value for name, value in asked.items() if name not in IGNORED and value}
    memory_ids = given.get("memory_ids", ())
    proposed: Json = {"question": query, "search": receipt["operation"]}
    if len(memory_ids) == 1:
        proposed["memory"] = memory_ids[0]
        del given["memory_ids"]
    limit = given.pop("limit", None) or given.pop("top_k", None)
    proposed |= {"k": min(limit, MAX_K)} if limit else {}
    proposed |= {name: given.pop(name) for name in OWN_FIELDS if name in given}
    del given["query"]
    return proposed | ({"input": given} if given else {})


def _expect(found: tuple[Found, ...]) -> Json:
    """Return the expectation that a question finds what it finds now."""
    if not found:
        return {"nothing": True}
    first: dict[str, Any] = {"max_rank": MAX_RANK}
    line = found[0].text.strip().split("\n", 1)[0][:MAX_TEXT]
    first |= {"text": line} if line else {"guid": found[0].guid}
    return {"must": [first]}


def _write(questions: list[Json]) -> bytes:
    return orjson.dumps({"questions": questions})
