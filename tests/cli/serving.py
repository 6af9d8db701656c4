"""The real program, up, with the sample pipeline: what the commands that need a bus are tried
on."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tests.support.program import Program


@contextmanager
def serving() -> Iterator[Program]:
    """`memrelay up` on ports of its own, ended in order."""
    with Program() as program:
        program.environment["MEMRELAY_WEB__PORT"] = "0"
        program.up()
        yield program
        assert program.end() == 0


@cache
def uid_of(program: Program) -> str:
    """The sample pipeline's."""
    uids: list[str] = [
        one["pipeline_uid"] for one in program.run("ls").lines if one["name"] == "memory_test"
    ]
    return uids[0]
