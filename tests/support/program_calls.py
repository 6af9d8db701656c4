"""Deploy pipelines into a running program, and call their operations."""

from functools import cache
from typing import Any, NamedTuple

import orjson

from tests.support.bundles import make_bundle
from tests.support.calls import call
from tests.support.client import Client
from tests.support.program import Program


class Bus(NamedTuple):
    """The bus of a running program, for calls."""

    client: Client


bus_of = cache(lambda program: Bus(program.client()))


def one(program: Program, uid: str, operation: str, /, **given: Any) -> Any:
    """Return the output of an operation."""
    return call(bus_of(program), uid, operation, given)


def deploy(program: Program, uid: str) -> None:
    """Deploy an empty pipeline with that uid and name."""
    (program.folder / "bundle.json").write_bytes(orjson.dumps(make_bundle(uid, name=uid)))
    assert program.run("deploy", "bundle.json").code == 0
