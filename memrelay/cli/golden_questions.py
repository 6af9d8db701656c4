"""Read golden questions, and ask a running pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address
from memrelay.cli.operation_command import ACTOR
from memrelay.cli.settings import Settings
from memrelay.cli.terminal import escaped
from memrelay.memory.operations import known_operation
from memrelay.questions.file import InvalidQuestions, read_questions
from memrelay.questions.model import Question
from memrelay.questions.run import Call, Outcome, SearchRefused, ask_all

INVALID_FILE = 2  # the exit code


@dataclass(frozen=True, slots=True)
class PipelineSearch:
    """Runs calls on the worker that serves a pipeline, with the state of `as_of` ("" for now)."""

    requester: Requester
    uid: str
    as_of: str
    wait_s: float

    async def __call__(self, call: Call) -> dict[str, Any]:
        """Return the output. Raises SearchRefused, and what `Requester.call` raises."""
        as_of = self.as_of if known_operation(call.operation).takes_as_of else ""
        if self.as_of and not as_of and call.operation.endswith(".search"):
            raise SearchRefused(f"{call.operation} cannot search the past; leave out --as-of")
        data = orjson.dumps(call.input)
        sent = NewCall(self.uid, call.operation, data, False, call.store, ACTOR, as_of=as_of)
        answer = await self.requester.call(sent, self.wait_s)
        if "error" in answer:
            raise SearchRefused(answer["error"]["detail"])
        output: dict[str, Any] = answer["output"]
        return output


async def ask_pipeline(
    settings: Settings, uid: str, questions: Sequence[Question], as_of: str, wait_s: float
) -> list[Outcome]:
    """Return the outcomes of questions to a pipeline that a worker serves."""
    async with Requester(bus_address(settings)) as requester:
        return await ask_all(questions, PipelineSearch(requester, uid, as_of, wait_s))


def load_questions(file: Path, uid: str = "") -> list[Question]:
    """Return the questions of a file. Faults end the command with exit code 2."""
    try:
        return read_questions(file.read_bytes(), uid)
    except OSError as error:
        _end([f"memrelay: {file}: {error.strerror}"])
    except InvalidQuestions as error:
        _end([fault.as_line(str(file)) for fault in error.faults])


def _end(lines: Sequence[str]) -> NoReturn:
    for line in lines:
        typer.echo(escaped(line), err=True)
    raise typer.Exit(INVALID_FILE)
