"""`memrelay rehearse PIPELINE`: run kept inputs under another bundle, and compare."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, find_uid, note, run
from memrelay.cli.golden_questions import load_questions
from memrelay.cli.operation_command import ACTOR
from memrelay.cli.options import Json, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.rehearsal.output import PAGED, format_junit, format_report

Candidate = Annotated[
    Path, typer.Option("--bundle", metavar="FILE", help="The bundle to try, in JSON.")
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        help="Begin with the stores as they were then. By default, at the first kept input.",
    ),
]
Until = Annotated[str, typer.Option(metavar="TIME", help="Only inputs before this time.")]
Messages = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help='Run messages instead, one per line: a text, or {"text": ..., "swarm": ...}.',
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Golden questions, which the stores of both bundles answer. Exit code 1 if one fails "
        "under the candidate.",
    ),
]
OwnBlocks = Annotated[
    bool,
    typer.Option(
        "--own-blocks", help="Run blocks of blocks.paths too. They are Python and may do anything."
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write JUnit: a sort of difference that occurs fails."),
]
# Time for the answer to one call, and the pause between two looks at the rehearsal.
ANSWER_S, PAUSE_S = 30.0, 0.5


def rehearse(
    pipeline: Pipeline,
    *,
    bundle: Candidate,
    since: Since = "",
    until: Until = "",
    messages: Messages = None,
    questions: Questions = None,
    own_blocks: OwnBlocks = False,
    junit: Junit = None,
    as_json: Json = False,
) -> None:
    """Run the kept inputs of a pipeline under another bundle, on copies of its stores.

    Prints what would have been different. Nothing is sent, and no store changes. Exits with 1 if
    the rehearsal fails.
    """
    given: dict[str, Any] = {
        "bundle": _read_object(bundle),
        "since": since,
        "until": until,
        "own_blocks": own_blocks,
    }
    if messages is not None:
        given["messages"] = _read_messages(messages)
    if questions is not None:
        load_questions(questions)
        given["questions"] = questions.read_text()

    async def command(settings: Settings) -> None:
        uid = await find_uid(settings, pipeline)
        async with Requester(bus_address(settings)) as requester:
            report = await RehearsalCalls(uid, requester).run(given)
        if junit is not None:
            junit.write_text(format_junit(report))
        if as_json:
            print_json(report)
        else:
            for line in format_report(report).splitlines():
                print_line(line)
        tests = report.get("tests", {})
        if report["status"] != "done" or tests.get("candidate") != tests.get("questions"):
            raise typer.Exit(1)

    run(command)


class RehearsalCalls:
    """Calls the operations on rehearsals of a pipeline."""

    def __init__(self, uid: str, requester: Requester) -> None:
        self._uid, self._requester = uid, requester

    async def run(self, given: dict[str, Any]) -> dict[str, Any]:
        """Run a rehearsal to its end and return the whole report."""
        made = await self._call("rehearsals.create", given)
        note(f"rehearsal {made['id']} of {self._uid} runs")
        asked = {"id": made["id"]}
        while (found := await self._call("rehearsals.get", asked))["status"] == "running":
            await asyncio.sleep(PAUSE_S)
        report: dict[str, Any] = found["report"]
        while (cursor := found["next_cursor"]) is not None:
            found = await self._call("rehearsals.get", asked | {"cursor": cursor})
            for name in PAGED:
                if name in report:
                    report[name] += found["report"][name]
        return report

    async def _call(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the output of an operation. End the command if it is refused."""
        call = NewCall(self._uid, name, orjson.dumps(given), False, "", ACTOR)
        answer = await self._requester.call(call, ANSWER_S)
        if "error" in answer:
            fail(answer["error"]["detail"])
        output: dict[str, Any] = answer["output"]
        return output


def _read_object(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file. End the command if there is none."""
    try:
        value = orjson.loads(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except orjson.JSONDecodeError as error:
        fail(f"{file} is not valid JSON: {error}")
    if not isinstance(value, dict):
        fail(f"{file} must have a JSON object")
    return value


def _read_messages(file: Path) -> list[dict[str, Any]]:
    """Return the messages of a file: each line is a text, or an object with its fields."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    return [_parse_message(file, line) for line in lines if line.strip()]


def _parse_message(file: Path, line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {"text": line}
    try:
        message: dict[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        fail(f"{file}: {line[:80]} is not valid JSON: {error}")
    return message
