"""The keys `schema` and `on_mismatch` of swarms and agents: their check at deploy and later."""

import importlib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from memrelay.blocks.errors import MessageRefused
from memrelay.blocks.patterns import MAX_STEPS_TOGETHER
from memrelay.pipelines.bundle import AgentSpec, SwarmSpec
from memrelay.pipelines.report import JsonPath, Report, did_you_mean, quoted

if TYPE_CHECKING:
    from memrelay.pipelines.message_schemas import MessageSchema

# Bytes of all schemas of a bundle. Their check takes about 10 us per byte.
MAX_TOGETHER = 256 << 10


class SchemaMismatch(MessageRefused):
    """The text of a message breaks the schema of its swarm or agent."""


@dataclass(frozen=True, slots=True)
class MessageCheck:
    """A schema for the texts of messages. Others go to the swarm `on_mismatch`; "" for none."""

    schema: "MessageSchema"
    on_mismatch: str


def check_schema(
    spec: AgentSpec | SwarmSpec, path: JsonPath, report: Report
) -> MessageCheck | None:
    """Return the check of an agent or a swarm, None without one or after reporting its faults."""
    if spec.message_schema is None:
        if spec.on_mismatch:
            rule = "on_mismatch has no effect without a schema"
            report.error((*path, "on_mismatch"), rule, "add a schema, or remove it")
        return None
    at = (*path, "schema")
    if report.pattern_steps > MAX_STEPS_TOGETHER:
        return None  # this was reported
    report.schema_bytes += len(orjson.dumps(spec.message_schema))
    if report.schema_bytes > MAX_TOGETHER:
        report.error(at, f"the schemas of a bundle have at most {MAX_TOGETHER} bytes together")
        return None
    # An optional heavy part: the validator of JSON Schema.
    schemas: Any = importlib.import_module("memrelay.pipelines.message_schemas")
    try:
        schema = schemas.MessageSchema(spec.message_schema)
    except schemas.BadSchema as error:
        report.error((*at, *error.path), str(error))
        return None
    report.pattern_steps += schema.pattern_steps
    if report.pattern_steps > MAX_STEPS_TOGETHER:
        rule = f"the patterns of a bundle have at most {MAX_STEPS_TOGETHER} steps together"
        report.error(at, rule, "use smaller patterns")
    return MessageCheck(schema, spec.on_mismatch)


def check_swarm_schemas(swarms: Mapping[int, SwarmSpec], report: Report) -> dict[str, MessageCheck]:
    """Return the checks of the swarms by name, after reporting their faults."""
    found = {spec.name: check_schema(spec, ("swarms", at), report) for at, spec in swarms.items()}
    return {name: check for name, check in found.items() if check is not None}


def check_mismatches(
    swarms: Mapping[int, SwarmSpec], agents: Mapping[int, AgentSpec], report: Report
) -> None:
    """Report swarms in `on_mismatch` on which no agent listens, or from which the message came."""
    listening = {spec.agent_rec_swarm for spec in agents.values()}
    for at, swarm in swarms.items():
        _check_mismatch(swarm.on_mismatch, swarm.name, ("swarms", at), listening, report)
    for at, agent in agents.items():
        _check_mismatch(agent.on_mismatch, agent.agent_rec_swarm, ("agents", at), listening, report)


def _check_mismatch(
    target: str, source: str, path: JsonPath, listening: Set[str], report: Report
) -> None:
    at = (*path, "on_mismatch")
    if target and target == source:
        rule = "the message would come back to the swarm that it came from"
        report.error(at, rule, "name another swarm")
    elif target and target not in listening:
        rule = f"no agent listens on the swarm {quoted(target)}"
        report.error(at, rule, did_you_mean(target, listening - {""}) or "add an agent")
