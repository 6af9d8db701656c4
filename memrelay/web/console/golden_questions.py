"""Asks golden questions with the rights of a request. It loads the parser of YAML."""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from memrelay.memory.engine.identity import VOUCHED
from memrelay.memory.operations import known_operation
from memrelay.questions.file import InvalidQuestions, read_questions
from memrelay.questions.run import Call, SearchRefused, ask_all, summarize
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.identity import identity_of
from memrelay.web.server.errors import CallTimeout, Problem, Unavailable


@dataclass(frozen=True, slots=True)
class RequestSearch:
    """Runs calls with the rights of the caller of a request."""

    request: web.Request
    uid: str

    async def __call__(self, call: Call) -> dict[str, Any]:
        """Return the output. Raises SearchRefused, and Problem if no worker answers."""
        given = {name: value for name, value in call.input.items() if name != VOUCHED}
        try:
            if known_operation(call.operation).has_caller:
                given |= identity_of(self.request, given)
            output: dict[str, Any] = await call_operation(
                self.request, call.operation, self.uid, given, call.store
            )
        except (CallTimeout, Unavailable):
            raise
        except Problem as problem:
            raise SearchRefused(problem.detail) from problem
        return output


async def ask_questions(request: web.Request, uid: str, text: str, most: int) -> dict[str, Any]:
    """Ask the questions of a text, and return {faults, outcomes, summary}, failed ones first.

    More than `most` questions are a fault. Raises Problem and BusError.
    """
    try:
        questions = await asyncio.to_thread(read_questions, text.encode(), uid)
    except InvalidQuestions as error:
        return _refuse([f"Line {one.as_line('')[1:]}" for one in error.faults])
    if len(questions) > most:
        return _refuse(
            [
                f"There are {len(questions):,} questions; at most {most} run here. "
                "Ask all with memrelay test."
            ]
        )
    try:
        outcomes = await ask_all(questions, RequestSearch(request, uid))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return {
        "faults": [],
        "outcomes": sorted(outcomes, key=lambda one: one.passed),
        "summary": summarize(outcomes),
    }


def _refuse(faults: list[str]) -> dict[str, Any]:
    return {"faults": faults, "outcomes": [], "summary": None}
