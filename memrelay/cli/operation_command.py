"""Generate commands from operations: required fields become arguments, others options.

The calling agent is the required option `--agent`.
"""

import sys
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Annotated, Any

import orjson
import typer
from msgspec import structs
from pydantic import ValidationError

from memrelay.bus.request import NewCall, Requester
from memrelay.bus.streams.via import Via
from memrelay.cli.composition import bus_address, fail, find_uid, make_seal_keys, run
from memrelay.cli.options import JsonAnyway, Pipeline, validate_idempotency_key
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.memory.engine.identity import CONTEXTS, VOUCHED
from memrelay.memory.errors import Refused
from memrelay.memory.operations import (
    AS_OF,
    AS_OF_TEXT,
    STORE,
    Operation,
    all_operations,
    holds_objects,
    input_schema,
    json_type,
    positional_fields,
    selects_store,
)
from memrelay.memory.records.data import check_integers, parse
from memrelay.pipelines.json_text import parse_as
from memrelay.pipelines.report import Report
from memrelay.pipelines.rules import report_validation_error

ACTOR = "cli"
# JSON Schema types and their Python types. All others are text.
TYPES: dict[str, Any] = {"array": list[str], "integer": int, "number": float, "boolean": bool}
# Optional fields that are arguments of the command instead of options.
OPTIONAL_ARGUMENTS = ("query", "arguments")
# The field that names the calling agent.
AGENT = "agent"
# On the command line, the time for an answer. A search waits until the embedder is loaded.
WAIT = "wait"
# Also the end of `memory_tags` and `entry_tags`.
TAGS = "tags"
METAVARS = {"integer": "NUMBER", "number": "NUMBER", "object": "JSON"}
Store = Annotated[
    str, typer.Option(metavar="MEMORY_ID", help="A store of the bundle. The first one by default.")
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        callback=validate_idempotency_key,
        help="Idempotency key: a repeated call with this key has no second effect.",
    ),
]
Time = Annotated[
    str,
    typer.Option("--as-of", metavar="TIME", help=AS_OF_TEXT),
]
AnswerTimeout = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=0, max=86_400, help="Maximum time to wait for an answer."),
]


def make_commands(group: str) -> list[Callable[..., None]]:
    """Return the commands `memrelay GROUP VERB`, one per operation of the noun."""
    noun = group.replace("-", "_")
    return [
        make_command(operation) for operation in all_operations().values() if operation.noun == noun
    ]


def make_command(operation: Operation) -> Callable[..., None]:
    """Return the function of `memrelay NOUN VERB`, with the signature that typer reads."""

    has_store = selects_store(operation)

    def command(
        pipeline: str,
        idempotency_key: str | None = None,
        wait: float = 30.0,
        as_json: bool = False,
        **fields: Any,
    ) -> None:
        store = fields.pop(STORE) if has_store else ""
        as_of = fields.pop(AS_OF, "")
        given = {name: value for name, value in fields.items() if value is not None}
        data = encode_input(operation, given)
        key = idempotency_key or ""
        call = NewCall(
            "",
            operation.name,
            data,
            operation.mutates,
            store,
            ACTOR,
            key,
            as_of=as_of,
            via=Via("cli"),
        )
        run(lambda settings: _call_and_print(settings, pipeline, call, wait, as_json=as_json))

    parameters = _parameters(operation)
    command.__name__, command.__doc__ = operation.verb, operation.summary
    command.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    vars(command)["__signature__"] = signature(command).replace(parameters=parameters)
    return command


def _parameters(operation: Operation) -> list[Parameter]:
    schema = input_schema(operation)
    required = positional_fields(operation) + schema["required"]
    # Positional fields first, and of the optional ones the query.
    fields = sorted(
        schema["properties"].items(),
        key=lambda field: (field[0] not in required, field[0] not in OPTIONAL_ARGUMENTS),
    )
    stores = [_parameter(STORE, Store, "")] if selects_store(operation) else []
    times = [_parameter(AS_OF, Time, "")] if operation.takes_as_of else []
    keys = [_parameter("idempotency_key", IdempotencyKey, None)] if operation.mutates else []
    return [
        _parameter("pipeline", Pipeline),
        *[
            _agent(schema)
            if operation.has_caller and name == AGENT
            else _field(name, schema, is_required=name in required)
            for name, schema in fields
            if name != WAIT
        ],
        *stores,
        *times,
        *keys,
        _parameter(WAIT, AnswerTimeout, 30.0),
        _parameter("as_json", JsonAnyway, False),
    ]


def _field(name: str, schema: dict[str, Any], *, is_required: bool) -> Parameter:
    kind = TYPES.get(json_type(schema), str)
    if is_required:
        return _parameter(name, Annotated[kind, _argument(name, schema)])
    if name in OPTIONAL_ARGUMENTS:
        return _parameter(name, Annotated[kind, _argument(name, schema)], None)
    text, flag = schema["description"] + _repetition(name, kind), f"--{name.replace('_', '-')}"
    if kind is bool:
        option = typer.Option(f"{flag}/--no-{flag[2:]}", help=text)
    else:
        metavar = METAVARS.get(json_type(schema), "TEXT")
        option = typer.Option(flag, metavar=metavar, help=text)
    return _parameter(name, Annotated[kind | None, option], None)


def _agent(schema: dict[str, Any]) -> Parameter:
    option = typer.Option(f"--{AGENT}", metavar="AGENT", help=schema["description"])
    return _parameter(AGENT, Annotated[str, option])


def _argument(name: str, schema: dict[str, Any]) -> Any:
    return typer.Argument(metavar=name.upper(), help=schema["description"])


def _repetition(name: str, kind: Any) -> str:
    if name.endswith(TAGS):
        return " Separate several with commas, or repeat the option."
    return " Repeat the option for several." if kind == list[str] else ""


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def encode_input(operation: Operation, given: dict[str, Any]) -> bytes:
    """Return the validated input as JSON. End the command with all faults of it.

    The command line vouches for the chat and the user that it names.
    """
    report, properties = Report(), input_schema(operation)["properties"]
    # typer passes an empty list for an option that is not given.
    given = {
        name: _parse_value(name, value, properties[name], report)
        for name, value in given.items()
        if value != []
    }
    waits = {WAIT: True} if WAIT in properties else {}
    given = {**operation.face_defaults, **waits, **given}
    if operation.has_caller:
        given[VOUCHED] = CONTEXTS
    try:
        data = orjson.dumps(operation.adapter.validate_json(orjson.dumps(given), strict=True))
        if not report.errors:
            return data
    except ValidationError as error:
        report_validation_error(error, given, (), report)
    except orjson.JSONEncodeError as error:
        fail(f"arguments must be text in UTF-8: {error}")
    fail("\n".join(fault.as_line() for fault in report.errors))


def _parse_value(name: str, value: Any, schema: dict[str, Any], report: Report) -> Any:
    """Parse objects and a value of any type as JSON, and tags as the blocks parse them."""
    kind = json_type(schema)
    if kind == "array" and holds_objects(schema):
        return [parse_as("object", name, one, report) for one in value]
    try:
        if not name.endswith(TAGS):
            parsed = parse_as(kind, name, value, report)
            if isinstance(value, str) and parsed is not value:
                check_integers(value.encode())
            return parsed
        return [tag for text in value for tag in parse(text)]
    except Refused as error:
        report.error((name,), str(error))
        return []


async def _call_and_print(
    settings: Settings, pipeline: str, call: NewCall, wait_s: float, *, as_json: bool
) -> None:
    output = await call_operation(settings, pipeline, call, wait_s)
    print_json(
        {"done": True} if output is None else output, indent=sys.stdout.isatty() and not as_json
    )


async def call_operation(settings: Settings, pipeline: str, call: NewCall, wait_s: float) -> Any:
    """Return the output of an operation. An error of the operation ends the command.

    An internal value is sealed before the call, and opened afterwards.
    """
    uid = await find_uid(settings, pipeline)
    keys = make_seal_keys(settings)
    data = await keys.seal_input(uid, call.op, call.data, call.producer_id)
    async with Requester(bus_address(settings)) as requester:
        output = await send_call(requester, structs.replace(call.at(uid), data=data), wait_s)
    return await keys.open_output(uid, call.op, output)


async def send_call(requester: Requester, call: NewCall, wait_s: float) -> Any:
    """Return the output of a call. An error of the operation ends the command."""
    answer = await requester.call(call, wait_s)
    if "error" in answer:
        error = answer["error"]
        faults = (f"{one['path']}: {one['message']}" for one in error.get("faults", ()))
        fail("\n".join((error["detail"], *faults)))
    if (state := answer.get(AS_OF)) is not None:
        typer.echo(describe_state(state), err=True)
    return answer["output"]


def describe_state(state: Mapping[str, Any]) -> str:
    """Return the line about the state that a call with `as_of` has read."""
    missing = state["incomplete"]
    lost = f"; {missing} records are left out, whose state then is lost" if missing else ""
    return f"as of {state['at']} (n:{state['change']}){lost}"
