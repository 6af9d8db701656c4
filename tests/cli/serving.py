"""Running programs and systems, on which the tests of the commands run."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tests.support.child import CHECKOUT
from tests.support.program import Completed, Program, environment_without_settings, run_anywhere
from tests.support.system import TestSystem


@contextmanager
def serving() -> Iterator[Program]:
    """Run `memrelay up` on a free port, and end it in order."""
    with Program() as program:
        program.up()
        yield program
        assert program.end() == 0


@cache
def uid_of(program: Program) -> str:
    """Return the uid of the sample pipeline."""
    uids: list[str] = [
        one["pipeline_uid"] for one in program.run("ls").lines if one["name"] == "memory_test"
    ]
    return uids[0]


def run_on(system: TestSystem, *words: str) -> Completed:
    """Run a command on the bus and the memory root of a system."""
    environment = environment_without_settings() | {
        "MEMRELAY_BUS__URL": f"unix://{system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(system.root),
    }
    return run_anywhere(list(words), CHECKOUT, environment)
