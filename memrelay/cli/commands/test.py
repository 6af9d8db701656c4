"""`memrelay test PIPELINE FILE`: ask golden questions and check what is found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memrelay.bus.request import Requester
from memrelay.cli.commands.export import write_atomically
from memrelay.cli.composition import bus_address, fail, find_uid, run, run_with_settings
from memrelay.cli.golden_questions import PipelineSearch, ask_pipeline, load_questions
from memrelay.cli.operation_command import AnswerTimeout, Time
from memrelay.cli.options import Json, pipeline_argument
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.memory.engine.models import load
from memrelay.memory.errors import MemoryFault
from memrelay.questions.model import Question
from memrelay.questions.reports import make_junit, report_lines
from memrelay.questions.run import Call, Outcome, SearchRefused, ask_in_turn
from memrelay.questions.suggest import suggest as propose

if TYPE_CHECKING:
    from memrelay.embedded.store import EmbeddedStore

STORE_FILE = ".db"
Target = Annotated[
    str,
    pipeline_argument(
        "The uid or the name of the pipeline, or a store file (.db) without a server."
    ),
]
File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="Golden questions (docs/golden-questions.md)."),
]
JUnit = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML to this file.")
]
Suggest = Annotated[
    bool,
    typer.Option(
        "--suggest", help="Print questions that the receipts of the pipeline propose, as a file."
    ),
]


@dataclass(frozen=True, slots=True)
class FileSearch:
    """Runs calls on an open store file. The names of stores in the questions are ignored."""

    store: "EmbeddedStore"

    def __call__(self, call: Call) -> dict[str, Any]:
        """Return the output. Raises SearchRefused."""
        try:
            output: dict[str, Any] = self.store.operate(call.operation, call.input)
        except MemoryFault as error:
            raise SearchRefused(str(error)) from error
        return output


def test(
    pipeline: Target,
    file: File = None,
    *,
    suggest: Suggest = False,
    as_of: Time = "",
    junit: JUnit = None,
    wait: AnswerTimeout = 30.0,
    as_json: Json = False,
) -> None:
    """Ask golden questions, and print those that do not find what they must.

    The exit code is 0 if all pass, 1 if one fails, and 2 if the file is invalid.
    """
    if suggest:
        _print_suggestions(pipeline, wait)
        return
    if file is None:
        fail("name a file of golden questions, or use --suggest")
    if pipeline.endswith(STORE_FILE) and Path(pipeline).is_file():
        if as_of:
            fail("a store file has no --as-of; name a pipeline that a worker serves")
        store, questions = Path(pipeline), load_questions(file)
        outcomes = run_with_settings(lambda _: _ask_file(store, questions))
    else:

        async def command(settings: Settings) -> list[Outcome]:
            uid = await find_uid(settings, pipeline)
            return await ask_pipeline(settings, uid, load_questions(file, uid), as_of, wait)

        outcomes = run(command)
    _report(outcomes, pipeline, junit, as_json=as_json)


def _print_suggestions(pipeline: str, wait_s: float) -> None:
    """Print a file of golden questions."""

    async def command(settings: Settings) -> str:
        uid = await find_uid(settings, pipeline)
        async with Requester(bus_address(settings)) as requester:
            try:
                return await propose(PipelineSearch(requester, uid, "", wait_s))
            except (LookupError, SearchRefused) as error:
                fail(str(error))

    for line in run(command).splitlines():
        print_line(line)


def _ask_file(path: Path, questions: Sequence[Question]) -> list[Outcome]:
    """Return the outcomes of questions to a store file. Raises MemoryFault."""
    open_store = load("memrelay.embedded.store:open_store")
    with open_store(path) as store:
        return ask_in_turn(questions, FileSearch(store))


def _report(outcomes: Sequence[Outcome], suite: str, junit: Path | None, *, as_json: bool) -> None:
    """Write the reports. End the command with exit code 1 if a question did not pass."""
    if junit is not None:
        document = make_junit(suite, outcomes)
        write_atomically(junit, lambda output: output.write(document))
    if as_json:
        for outcome in outcomes:
            print_json(outcome.as_json())
    else:
        for line in report_lines(outcomes):
            print_line(line)
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)
