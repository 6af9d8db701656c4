"""`memrelay policy test|scan`: try policies on a text, and on what a store has already."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import ValidationError

from memrelay.bus.request import NewCall
from memrelay.cli.composition import fail, run
from memrelay.cli.operation_command import ACTOR, AnswerTimeout, call_operation
from memrelay.cli.options import JsonAnyway, Pipeline
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json
from memrelay.memory.models.policies.policies import RecordToTest, try_offline
from memrelay.memory.policy_rules import check_policy
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.validation import pointer

Json = dict[str, Any]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A policy, a list of policies, or a bundle, in JSON.")
]
Given = Annotated[str, typer.Argument(metavar="TEXT", help="The content of a record.")]
Kind = Annotated[str, typer.Option(metavar="KIND", help="The kind of the record.")]
Source = Annotated[str, typer.Option(metavar="NAME", help="The source of the record.")]
StoreName = Annotated[
    str, typer.Option(metavar="ID", help="The memory_id of the store; by default the first one.")
]
With = Annotated[
    Path | None,
    typer.Option("--with", metavar="FILE", help="Scan with these policies instead."),
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply redact, tag and ttl_s to the records.")]


def test(
    file: File,
    text: Given,
    *,
    kind: Kind = DEFAULT_KIND,
    source: Source = "",
    as_json: JsonAnyway = False,
) -> None:
    """Show what policies would do with a text. Nothing is stored, and nothing needs to run.

    The digests of redacted values are other ones than in a store, because its key is missing.
    """
    record = RecordToTest(text, kind=kind, source=source)
    print_json(asdict(try_offline(read_policies(file), record, time.time_ns() // 1_000_000)))


def scan(
    pipeline: Pipeline,
    *,
    store: StoreName = "",
    policies: With = None,
    apply: Apply = False,
    wait: AnswerTimeout = 60.0,
    as_json: JsonAnyway = False,
) -> None:
    """Show what policies would have done with the records of a store, or do it with --apply.

    Each line is a record. The last line counts. A changed record keeps its earlier version in its
    history.
    """
    given = {} if policies is None else {"policies": read_policies(policies)}
    if apply and given:
        fail("--apply takes the policies of the store; set them first, or leave out --with")

    async def command(settings: Settings) -> None:
        name, field = ("policies.apply", "changed") if apply else ("policies.scan", "items")
        after, scanned, found = 0, 0, 0
        while True:
            data = orjson.dumps(given | {"after": after})
            call = NewCall("", name, data, mutates=apply, store=store, actor=ACTOR)
            page = await call_operation(settings, pipeline, call, wait)
            for item in page[field]:
                print_json(item)
            scanned, found = scanned + page["scanned"], found + len(page[field])
            if not (after := page["next"]):
                break
        print_json({"scanned": scanned, "changed" if apply else "found": found})

    run(command)


def read_policies(file: Path) -> list[Json]:
    """Return the policies of a file. Faults end the command with exit code 1."""
    try:
        value = orjson.loads(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except orjson.JSONDecodeError as error:
        fail(f"{file}: invalid JSON: {error}")
    if isinstance(value, dict) and "agents" in value:
        stores = value.get("stores") or []
        value = [policy for store in stores for policy in store.get("policies", ())]
    policies = value if isinstance(value, list) else [value]
    faults = [line for at, policy in enumerate(policies) for line in _list_faults(at, policy)]
    if faults:
        fail("\n".join(f"{file}: {line}" for line in faults))
    return policies


def _list_faults(at: int, policy: Any) -> list[str]:
    if not isinstance(policy, dict):
        return [f"policies[{at}]: a policy is an object with name, match and action"]
    try:
        check_policy(policy)
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [f"policies[{at}]{pointer(one['loc'])}: {one['msg']}" for one in found]
    return []


policy = [test, scan]
