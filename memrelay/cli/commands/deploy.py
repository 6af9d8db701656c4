"""`memrelay deploy FILE`: check a bundle and activate it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from memrelay.cli.composition import fail, make_catalog, note, run, run_with_settings
from memrelay.cli.deployment import deployments, print_deployed, read_bundle
from memrelay.cli.golden_questions import ask_pipeline, load_questions
from memrelay.cli.options import BundleFile, IfMatch, JsonAnyway, make_precondition
from memrelay.cli.settings import Settings
from memrelay.cli.terminal import escaped
from memrelay.memory.control.catalog import Deployed
from memrelay.pipelines.checked import BundleRefused, CheckedBundle
from memrelay.questions.reports import report_lines

Uid = Annotated[
    str | None,
    typer.Option(
        metavar="UID",
        help="Deploy as this pipeline. By default the pipeline_uid of the bundle, or a new one.",
    ),
]
RequireTests = Annotated[
    bool,
    typer.Option(
        "--require-tests",
        help="First ask the pipeline the golden questions that the bundle names. If one fails, "
        "deploy nothing.",
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option("--questions", metavar="FILE", help="Require the questions of this file."),
]
WAIT_S = 30.0


def deploy(
    file: BundleFile,
    *,
    uid: Uid = None,
    if_match: IfMatch = None,
    require_tests: RequireTests = False,
    questions: Questions = None,
    as_json: JsonAnyway = False,
) -> None:
    """Check a bundle and activate it. Print {pipeline_uid, name, hash, version, served}."""
    checked = run_with_settings(lambda settings: read_bundle(settings, file, uid))
    if require_tests and questions is None:
        questions = _find_questions(checked.accepted(), file)

    async def command(settings: Settings) -> None:
        async with make_catalog(settings) as catalog:
            before = await catalog.active()
        if questions is not None:
            await _require_passes(settings, questions, checked.accepted().uid, before)
        async with deployments(settings) as service:
            try:
                swapped = await service.deploy(checked.accepted(), make_precondition(if_match))
            except BundleRefused as error:
                fail(str(error))
            _print_likely_mistakes(swapped.after, before)
            await print_deployed(service, swapped.after)

    run(command)


def _find_questions(bundle: CheckedBundle, file: Path) -> Path:
    """Return the file of golden questions that a bundle names. End the command if it names none."""
    if not bundle.golden_questions:
        fail(f"{file} names no file in `golden_questions`; add it, or use --questions FILE")
    return file.parent / bundle.golden_questions


async def _require_passes(
    settings: Settings, file: Path, uid: str, before: Sequence[Deployed]
) -> None:
    """End the command if a golden question fails in the pipeline that will be replaced."""
    asked = load_questions(file, uid)
    if all(one.uid != uid for one in before):
        note(f"pipeline {uid} is new, so its golden questions were not asked")
        return
    outcomes = await ask_pipeline(settings, uid, asked, "", WAIT_S)
    if all(outcome.passed for outcome in outcomes):
        return
    for line in report_lines(outcomes):
        typer.echo(escaped(line), err=True)
    fail(f"nothing was deployed, because golden questions of {file} fail in pipeline {uid}")


def _print_likely_mistakes(deployed: Deployed, before: Sequence[Deployed]) -> None:
    """Note a second pipeline with the same name, and a uid that got another name."""
    for one in before:
        if one.uid == deployed.uid and one.name != deployed.name:
            note(f"pipeline {one.uid} was named {one.name}; now it is {deployed.name}")
        elif one.name == deployed.name and one.uid != deployed.uid:
            note(
                f"pipeline {one.uid} is also named {one.name}; to replace it: "
                f"memrelay deploy FILE --uid {one.uid}"
            )
