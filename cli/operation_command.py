"""A command from an operation's declaration: what it needs are arguments, what it may take are
options."""

import sys
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError

from memrelay.bus.request import NewCall, Requester
from memrelay.cli.composition import bus_address, fail, pipeline_named, run, stored_catalog
from memrelay.cli.options import JsonAnyway, Pipeline, own_id
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.memory.errors import BadTags
from memrelay.memory.operation import Operation, json_type
from memrelay.memory.records.tags import parse
from memrelay.pipelines.json_text import parse_object
from memrelay.pipelines.report import Report
from memrelay.pipelines.shape import tell

ACTOR = "cli"
# By what JSON Schema calls them; all else is text.
TYPES: dict[str, Any] = {"array": list[str], "integer": int, "number": float, "boolean": bool}
TAGS = "tags"  # and `memory_tags`, `entry_tags`
METAVARS = {"integer": "NUMBER", "number": "NUMBER", "object": "JSON"}
Store = Annotated[
    str,
    typer.Option(
        metavar="MEMORY_ID",
        help="One of the bundle's stores; by default its first.",
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="ID",
        callback=own_id,
        show_default=False,
        help="Your own id: the same again has no second effect.",
    ),
]
Within = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long to wait for the answer."),
]


def command_for(operation: Operation) -> Callable[..., None]:
    """The function that is the command `memrelay NOUN VERB`."""
    schema = operation.adapter.json_schema()
    required = schema.get("required", [])

    def command(
        pipeline: str,
        store: str,
        idempotency_key: str | None = None,
        wait: float = 30.0,
        as_json: bool = False,
        **given: Any,
    ) -> None:
        data = checked(
            operation, {name: value for name, value in given.items() if value is not None}
        )
        call = NewCall(
            "", operation.name, data, operation.mutates, store, ACTOR, idempotency_key or ""
        )
        run(lambda settings: _perform(settings, pipeline, call, wait, as_json=as_json))

    fields = sorted(
        schema["properties"].items(),
        key=lambda field: (field[0] not in required, field[0] != "query"),
    )
    parameters = [
        _parameter("pipeline", Pipeline),
        *[_field(name, told, is_required=name in required) for name, told in fields],
        _parameter("store", Store, ""),
        *[_parameter("idempotency_key", Key, None)] * operation.mutates,
        _parameter("wait", Within, 30.0),
        _parameter("as_json", JsonAnyway, False),
    ]
    command.__name__, command.__doc__ = operation.verb, operation.summary
    command.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    vars(command)["__signature__"] = signature(command).replace(parameters=parameters)
    return command


def _field(name: str, told: dict[str, Any], *, is_required: bool) -> Parameter:
    """An argument, or an option that says nothing where it is not given."""
    kind = TYPES.get(json_type(told), str)
    if (
        is_required or name == "query"
    ):  # what is looked for needs no flag, where one may also look for nothing
        argument = typer.Argument(
            metavar=name.upper(), help=told["description"], show_default=False
        )
        return _parameter(name, Annotated[kind, argument], *[None] * (not is_required))
    text = told["description"] + (
        " With commas between, or several times."
        if name.endswith(TAGS)
        else " Several times for several." * (kind == list[str])
    )
    flag = f"--{name.replace('_', '-')}"
    if kind is bool:
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text, show_default=False)
    else:
        option = typer.Option(
            flag, metavar=METAVARS.get(json_type(told), "TEXT"), help=text, show_default=False
        )
    return _parameter(name, Annotated[kind | None, option], None)


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def checked(operation: Operation, given: dict[str, Any]) -> bytes:
    """The input as JSON; ends the command with all that is wrong."""
    report, properties = Report(), operation.adapter.json_schema()["properties"]
    given = {
        name: _read(name, value, json_type(properties[name]), report)
        for name, value in given.items()
        if value != []
    }  # which is how an option is that was not given
    try:
        asked = orjson.dumps(operation.adapter.validate_json(orjson.dumps(given), strict=True))
        if not report.errors:
            return asked
    except ValidationError as error:
        tell(error, given, (), report)
    except orjson.JSONEncodeError as error:
        fail(f"what is given must be text in UTF-8: {error}")
    fail("\n".join(fault.as_line() for fault in report.errors))


def _read(name: str, value: Any, kind: str, report: Report) -> Any:
    """What a person types for a field: an object as JSON, and each of the tags as the blocks take
    them."""
    if kind == "object":
        return parse_object(value, (name,), report)
    if not name.endswith(TAGS):
        return value
    try:
        return [tag for typed in value for tag in parse(typed)]
    except BadTags as error:
        report.error((name,), str(error))
        return []


async def _perform(
    settings: Settings, pipeline: str, call: NewCall, wait_s: float, *, as_json: bool
) -> None:
    output = await output_of(settings, pipeline, call, wait_s)
    print_json(
        {"done": True} if output is None else output, indent=sys.stdout.isatty() and not as_json
    )


async def output_of(settings: Settings, pipeline: str, call: NewCall, wait_s: float) -> Any:
    """What the operation gives; ends the command with what it refuses."""
    async with stored_catalog(settings) as catalog:
        uid = (await pipeline_named(catalog, pipeline)).uid
    async with Requester(bus_address(settings)) as requester:
        answer = await requester.call(call.at(uid), wait_s)
    if "error" in answer:
        fail(answer["error"]["detail"])
    return answer["output"]
