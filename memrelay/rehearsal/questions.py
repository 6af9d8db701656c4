"""Golden questions to both sides of a rehearsal, answered by the code that answers calls."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
from msgspec import Raw

from memrelay.bus.request import Question as AskedQuestion
from memrelay.memory.errors import Refused
from memrelay.pipelines.plan import Plan
from memrelay.questions.file import InvalidQuestions, read_questions
from memrelay.questions.model import Question
from memrelay.questions.run import Call, Outcome, SearchRefused, ask_in_turn
from memrelay.rehearsal.runner import Side
from memrelay.worker.without_bus.reads import answer_read

ACTOR = "rehearsal"
MAX_SHOWN = 200  # characters of a result in the report
MAX_FAULTS = 10


def check_questions(text: str, uid: str) -> list[Question]:
    """Return the questions in the text of a file, none for "". Raises Refused."""
    try:
        return read_questions(text.encode(), uid) if text else []
    except InvalidQuestions as error:
        faults = "; ".join(one.as_line("questions") for one in error.faults[:MAX_FAULTS])
        raise Refused(f"the golden questions are invalid: {faults}") from error


def ask_sides(
    questions: Sequence[Question],
    then: tuple[Side, Plan],
    candidate: tuple[Side, Plan],
    now_ms: int,
    answer_bytes: int,
) -> dict[str, Any]:
    """Return the part of the report on golden questions, {} without questions.

    `tests` counts them and those that pass on each side. `questions` lists those that fail on a
    side, or whose results differ.
    """
    if not questions:
        return {}
    outcomes = [
        ask_in_turn(questions, _SideSearch(side, plan, now_ms, answer_bytes))
        for side, plan in (then, candidate)
    ]
    before, after = ([one.passed for one in side] for side in outcomes)
    counts = {"questions": len(questions), "then": sum(before), "candidate": sum(after)}
    return {"tests": counts, "questions": list(_compare(*outcomes))}


def _compare(then: Sequence[Outcome], candidate: Sequence[Outcome]) -> Iterator[dict[str, Any]]:
    for before, after in zip(then, candidate, strict=True):
        texts = [[one.text for one in side.found] for side in (before, after)]
        if before.passed and after.passed and texts[0] == texts[1]:
            continue
        yield {
            "name": before.question.title,
            "question": before.question.question,
            "then": _describe(before),
            "candidate": _describe(after),
        }


def _describe(outcome: Outcome) -> dict[str, Any]:
    return {
        "passed": outcome.passed,
        "failures": [str(one) for one in outcome.failures] + [outcome.error] * bool(outcome.error),
        "found": [one.as_json() | {"text": one.text[:MAX_SHOWN]} for one in outcome.found],
    }


class _SideSearch:
    """Runs calls on the stores of a side, as they are at the end of the period."""

    def __init__(self, side: Side, plan: Plan, now_ms: int, answer_bytes: int) -> None:
        self._side, self._plan = side, plan
        self._now_ms, self._answer_bytes = now_ms, answer_bytes

    def __call__(self, call: Call) -> dict[str, Any]:
        """Return the output. Raises SearchRefused."""
        asked = AskedQuestion(call.operation, "", Raw(orjson.dumps(call.input)), call.store, ACTOR)
        stores, limits = self._side.stores, (self._now_ms, self._answer_bytes)
        answer = answer_read(stores, self._plan, asked, *limits)
        if "error" in answer:
            raise SearchRefused(answer["error"]["detail"])
        output: dict[str, Any] = answer["output"]
        return output
