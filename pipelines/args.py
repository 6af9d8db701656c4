"""`wf_webhook_args`: parsed, and checked by the model of the block that they are for."""

from typing import Any

from pydantic import ValidationError

from blocks.contract import Block, BlockArgs
from blocks.templates import MAX_TOGETHER
from pipelines.faults import Place, quoted
from pipelines.json_text import bounded_object, parse_object
from pipelines.report import Report
from pipelines.shape import steps_to, tell


def parse_args(given: str | dict[str, Any], place: Place, report: Report) -> dict[str, Any] | None:
    """The arguments as an object, {} where nothing is given; None after telling what is wrong."""
    if isinstance(given, dict):
        return bounded_object(given, place, report)
    return parse_object(given, place, report) if given.strip() else {}


def read_args(
    block: Block, given: dict[str, Any], place: Place, report: Report
) -> BlockArgs | None:
    """The arguments as the block's model; None after telling what is wrong. null is the same as
    absent."""
    values = _known(block, given, place, report)
    if not _fits_with_others(values.get("output_template"), place, report):
        return None
    args, wrong = _validated(block, values, place, report)
    if wrong:  # once more without them: a model looks at the whole only where its keys are right
        _validated(
            block, {key: held for key, held in values.items() if key not in wrong}, place, report
        )
    for warning in args.warnings() if args is not None else ():
        report.warn(place, warning)
    return args


def _known(block: Block, given: dict[str, Any], place: Place, report: Report) -> dict[str, Any]:
    """The arguments that the block has, after telling of others where it minds."""
    known, values = block.args.model_fields, {}
    for key, held in given.items():
        if key in known and held is not None:
            values[key] = held
        elif key not in known and block.args.model_config.get("extra") == "forbid":
            report.unknown(
                (*place, key), f"the block {block.name} has no argument {quoted(key)}", key, known
            )
    return values


def _fits_with_others(template: object, place: Place, report: Report) -> bool:
    """Whether the templates of the bundle are short enough together: looking at one takes time, and
    there may be many."""
    if not isinstance(template, str):
        return True
    report.templates.add(template)
    if sum(map(len, report.templates)) <= MAX_TOGETHER:
        return True
    report.error(
        (*place, "output_template"),
        f"the templates of a bundle have at most {MAX_TOGETHER} characters together",
    )
    return False


def _validated(
    block: Block, values: dict[str, Any], place: Place, report: Report
) -> tuple[BlockArgs | None, frozenset[str]]:
    """The model, or None and the keys that are wrong."""
    try:
        return block.args.model_validate(values), frozenset()
    except ValidationError as error:
        tell(error, values, place, report)
        return None, frozenset(
            str(steps[0]) for told in error.errors(include_url=False) if (steps := steps_to(told))
        )
    except (
        RecursionError,
        SyntaxError,
    ):  # parsers of templates give up like this on thousands of brackets
        report.error(place, "nested too deeply")
        return None, frozenset()
