"""The status reports of workers, and commands that run next to them."""

import os
import signal
import subprocess
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any

import orjson

from tests.support.child import (
    CHECKOUT,
    ChildProcess,
    environment_without_settings,
    start_python,
)
from tests.support.house import House
from tests.support.program import run_anywhere
from tests.support.waiting import PATIENCE_S, wait_for

Told = dict[str, Any]


def roll(house: House) -> list[Told]:
    """Return the latest report of each live worker."""
    names = house.client.redis.zrange("memrelay:{workers}", 0, -1)
    reports = [house.client.redis.get(b"memrelay:{workers}:" + name) for name in names]
    return [orjson.loads(report) for report in reports if report]


def await_told(
    house: House, uid: str, holds: Callable[[Told], object], what: str, within_s: float = PATIENCE_S
) -> Told:
    """Wait until the owner's report on a pipeline satisfies a condition, and return the report."""

    def look() -> list[Told]:
        reports = [worker["pipelines"][uid] for worker in roll(house) if uid in worker["pipelines"]]
        return [told for told in reports if holds(told)]

    return wait_for(look, what, within_s)[0]


def await_paused(house: House, uid: str, reason: str, within_s: float = PATIENCE_S) -> str:
    """Wait until the worker reports a pipeline as paused for such a reason; return the whole
    reason.
    """
    told = await_told(
        house, uid, lambda told: reason in told["paused"], f"{uid} is paused: {reason}", within_s
    )
    return str(told["paused"])


def type_command(
    house: House, *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `memrelay COMMAND` on the bus and memory root of a test."""
    ended = run_anywhere(list(command), CHECKOUT, _environment(house) | environment)
    return subprocess.CompletedProcess(command, ended.code, ended.out, ended.err)


def start_command(house: House, *command: str) -> ChildProcess:
    """Start `memrelay COMMAND` on the bus and memory root of a test."""
    log = house.folder / f"{command[0]}.log"
    return ChildProcess("tests.support.run_program", command, log, _settings(house))


def type_for_a_while(house: House, *command: str, **environment: str) -> str:
    """Return the output of a command that may never end; it gets SIGTERM after some seconds."""
    environment = _environment(house) | environment
    with TemporaryFile() as output, open(os.devnull, "rb") as nothing:
        streams = nothing, output, output
        process = start_python("tests.support.run_program", command, CHECKOUT, environment, streams)
        try:
            process.wait(timeout=4)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGTERM)
            process.wait(timeout=120)
        output.seek(0)
        return output.read().decode()


def _environment(house: House) -> dict[str, str]:
    return environment_without_settings() | _settings(house)


def _settings(house: House) -> dict[str, str]:
    return {
        "MEMRELAY_BUS__URL": f"unix://{house.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(house.root),
    }
