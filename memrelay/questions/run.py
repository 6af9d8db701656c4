"""Ask golden questions and judge the answers. The caller passes the function that searches."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from memrelay.questions.file import make_input
from memrelay.questions.model import Expected, Json, Question, Required

MAX_AT_ONCE = 16
MEMORIES_PER_PAGE = 100
MAX_MEMORIES = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """A read-only call of an operation: its name, its input as JSON values, and the memory_id of
    the store, "" for the default one.
    """

    operation: str
    input: Json
    store: str = ""


class SearchRefused(Exception):
    """The operation refused the call. The text is the reason."""


# Returns the output of an operation as JSON values. Raises SearchRefused.
Search = Callable[[Call], Awaitable[Json]]


@dataclass(frozen=True, slots=True)
class Found:
    """A result. `rank` counts from 1. `key` is "" and `score` None if the operation has none."""

    rank: int
    guid: str
    key: str
    text: str
    score: float | None

    def as_json(self) -> Json:
        """Return the result as a JSON object."""
        return {
            "rank": self.rank,
            "guid": self.guid,
            "key": self.key,
            "text": self.text,
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """An expectation that the answer does not meet: what was expected, and what was found."""

    expected: str
    actual: str

    def __str__(self) -> str:
        return f"{self.expected}: {self.actual}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to a question. `error` is the reason if it was refused, else ""."""

    question: Question
    found: tuple[Found, ...]
    failures: tuple[Failure, ...]
    seconds: float
    error: str = ""
    degraded: str = ""  # why meaning was not compared with all records, "" if it was

    @property
    def passed(self) -> bool:
        return not self.failures and not self.error

    def as_json(self) -> Json:
        """Return the outcome as a JSON object."""
        return {
            "name": self.question.title,
            "question": self.question.question,
            "search": self.question.search,
            "passed": self.passed,
            "failures": [{"expected": one.expected, "actual": one.actual} for one in self.failures],
            "error": self.error or None,
            "degraded": self.degraded or None,
            "found": [one.as_json() for one in self.found],
            "seconds": round(self.seconds, 4),
        }


async def ask_all(questions: Sequence[Question], search: Search) -> list[Outcome]:
    """Return the outcomes in the order of the questions. At most MAX_AT_ONCE are asked at once.

    Each question is one call; named memories are looked up once. Raises an ExceptionGroup of what
    `search` raises, except SearchRefused.
    """
    memory_ids = await _find_memories({one.memory for one in questions if one.memory}, search)
    outcomes: dict[int, Outcome] = {}
    waiting = iter(enumerate(questions))

    async def ask_next() -> None:
        for at, question in waiting:
            outcomes[at] = await _ask(question, memory_ids, search)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(MAX_AT_ONCE, len(questions))):
            tasks.create_task(ask_next())
    return [outcomes[at] for at in range(len(questions))]


def ask_in_turn(questions: Sequence[Question], search: Callable[[Call], Json]) -> list[Outcome]:
    """Return the outcomes of a search that does not wait for others. It needs no event loop."""

    async def answer(call: Call) -> Json:
        return search(call)

    async def ask() -> list[Outcome]:
        memory_ids = await _find_memories({one.memory for one in questions if one.memory}, answer)
        return [await _ask(question, memory_ids, answer) for question in questions]

    try:
        # Nothing suspends it.
        ask().send(None)
    except StopIteration as ended:
        outcomes: list[Outcome] = ended.value
        return outcomes
    raise AssertionError("a search without an event loop has waited")


async def _find_memories(names: set[str], search: Search) -> dict[str, str]:
    """Return the ids of these named memories, by name and by id. Unknown ones are missing."""
    found: dict[str, str] = {}
    page: Json = {"limit": MEMORIES_PER_PAGE}
    count = 0
    while not names <= found.keys() and count < MAX_MEMORIES:
        try:
            output = await search(Call("memories.list", page))
        except SearchRefused:
            return found
        for memory in output["items"]:
            # As elsewhere, an id comes before a name, and an older memory before a younger one.
            found[memory["id"]] = memory["id"]
            found.setdefault(memory["name"], memory["id"])
        count += MEMORIES_PER_PAGE
        if output["next_cursor"] is None:
            break
        page = page | {"cursor": output["next_cursor"]}
    return found


async def _ask(question: Question, memory_ids: dict[str, str], search: Search) -> Outcome:
    start = time.perf_counter()
    if question.memory and question.memory not in memory_ids:
        return Outcome(question, (), (), 0.0, f"no memory has the name or id {question.memory!r}")
    given = make_input(question, memory_ids.get(question.memory, ""))
    try:
        output = await search(Call(question.search, given, question.store))
    except SearchRefused as error:
        return Outcome(question, (), (), time.perf_counter() - start, str(error))
    found = tuple(_read_results(output, question.k))
    degraded = output.get("reason" if "reason" in output else "degraded") or ""
    failures = tuple(judge(question, found))
    return Outcome(question, found, failures, time.perf_counter() - start, "", str(degraded))


def _read_results(output: Json, k: int) -> Iterator[Found]:
    """Yield the first results of any search operation."""
    items = output["results"] if "results" in output else output["items"]
    for rank, item in enumerate(items[:k], 1):
        record = item.get("record", item)
        guid = record.get("guid") or record.get("entry_id") or record.get("id") or ""
        text = record.get("content", record.get("text", record.get("value")))
        shown = text if isinstance(text, str) else orjson.dumps(text).decode()
        yield Found(rank, guid, record.get("key") or "", shown, item.get("score"))


def judge(question: Question, found: Sequence[Found]) -> Iterator[Failure]:
    """Yield the expectations of a question that its results do not meet."""
    if question.nothing:
        if found:
            yield Failure("nothing", f"found {len(found)}, first {_shown(found[0])}")
        return
    for required in question.must:
        yield from _judge_required(required, found, question.k)
    if question.in_order:
        yield from _judge_order(question.must, found)
    for forbidden in question.must_not:
        for one in found:
            if _meets(one, forbidden):
                yield Failure(f"not {forbidden}", f"at rank {one.rank}: {_shown(one)}")
    if question.may:
        named = [*question.must, *question.may]
        for one in found:
            if not any(_meets(one, expected) for expected in named):
                yield Failure("only what must and may names", f"at rank {one.rank}: {_shown(one)}")


def _judge_required(required: Required, found: Sequence[Found], k: int) -> Iterator[Failure]:
    rank = next((one.rank for one in found if _meets(one, required)), None)
    if rank is None:
        yield Failure(str(required), f"not among the first {k}")
    elif rank > required.max_rank:
        yield Failure(f"{required} at rank {required.max_rank} or better", f"at rank {rank}")


def _judge_order(musts: Sequence[Required], found: Sequence[Found]) -> Iterator[Failure]:
    """Yield each required result that is found, but not after the one before it."""
    last = 0
    for before, required in zip([None, *musts], musts, strict=False):
        ranks = [one.rank for one in found if _meets(one, required)]
        later = [rank for rank in ranks if rank > last]
        if ranks and not later:
            yield Failure(f"{required} after {before}", f"at rank {ranks[0]}, not after {last}")
        last = later[0] if later else last


def _meets(one: Found, expected: Expected) -> bool:
    if expected.guid and one.guid != expected.guid:
        return False
    if expected.key and one.key != expected.key:
        return False
    if expected.text and expected.text.casefold() not in one.text.casefold():
        return False
    return expected.pattern is None or expected.pattern.capture(one.text, 0) is not None


def _shown(one: Found, most: int = 70) -> str:
    text = " ".join(one.text[: most + 1].split())
    cut = text if len(one.text) <= most else f"{text[:most]}…"
    return orjson.dumps(f"{one.key}: {cut}" if one.key else cut).decode()


def count_passed(outcomes: Sequence[Outcome]) -> int:
    """Return how many questions passed."""
    return sum(one.passed for one in outcomes)


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return {questions, passed, failed, errors}."""
    errors = sum(bool(one.error) for one in outcomes)
    passed = count_passed(outcomes)
    failed = len(outcomes) - passed - errors
    return {"questions": len(outcomes), "passed": passed, "failed": failed, "errors": errors}
