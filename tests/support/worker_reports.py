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
from tests.support.program import run_anywhere
from tests.support.system import TestSystem
from tests.support.waiting import PATIENCE_S, wait_for

Report = dict[str, Any]


def worker_reports(system: TestSystem) -> list[Report]:
    """Return the latest report of each live worker."""
    names = system.client.redis.zrange("memrelay:{workers}", 0, -1)
    reports = [system.client.redis.get(b"memrelay:{workers}:" + name) for name in names]
    return [orjson.loads(report) for report in reports if report]


def await_report(
    system: TestSystem,
    uid: str,
    holds: Callable[[Report], object],
    what: str,
    within_s: float = PATIENCE_S,
) -> Report:
    """Wait until the owner's report on a pipeline satisfies a condition, and return the report."""

    def look() -> list[Report]:
        reports = [
            worker["pipelines"][uid]
            for worker in worker_reports(system)
            if uid in worker["pipelines"]
        ]
        return [report for report in reports if holds(report)]

    return wait_for(look, what, within_s)[0]


def await_paused(system: TestSystem, uid: str, reason: str, within_s: float = PATIENCE_S) -> str:
    """Wait until the worker reports a pipeline as paused for such a reason; return the whole
    reason.
    """
    report = await_report(
        system,
        uid,
        lambda report: reason in report["paused"],
        f"{uid} is paused: {reason}",
        within_s,
    )
    return str(report["paused"])


def type_command(
    system: TestSystem, *command: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `memrelay COMMAND` on the bus and memory root of a test."""
    ended = run_anywhere(list(command), CHECKOUT, _environment(system) | environment)
    return subprocess.CompletedProcess(command, ended.code, ended.out, ended.err)


def start_command(system: TestSystem, *command: str) -> ChildProcess:
    """Start `memrelay COMMAND` on the bus and memory root of a test."""
    log = system.folder / f"{command[0]}.log"
    return ChildProcess("tests.support.run_program", command, log, _settings(system))


def type_for_a_while(system: TestSystem, *command: str, **environment: str) -> str:
    """Return the output of a command that may never end; it gets SIGTERM after some seconds."""
    environment = _environment(system) | environment
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


def _environment(system: TestSystem) -> dict[str, str]:
    return environment_without_settings() | _settings(system)


def _settings(system: TestSystem) -> dict[str, str]:
    return {
        "MEMRELAY_BUS__URL": f"unix://{system.client.socket}",
        "MEMRELAY_MEMORY__ROOT": str(system.root),
    }
