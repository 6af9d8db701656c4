"""`memrelay status`: what runs."""

from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.lease.workers import BEAT_S
from memrelay.cli.composition import bus_address, bus_name, run, stored_catalog
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted
from memrelay.web.api.status import read_status


def status(*, as_json: Json = False) -> None:
    """Say what runs: workers, pipelines, lag, dead letters, durability."""

    async def command(settings: Settings) -> None:
        async with (
            stored_catalog(settings) as catalog,
            ReconnectingConnection(bus_address(settings)) as line,
        ):
            found = {"bus": bus_name(settings)} | await read_status(catalog, line)
        if as_json:
            print_json(found)
        else:
            _print(found)

    run(command)


def _print(found: dict[str, Any]) -> None:
    durability = found["durability"]
    print_line(f"bus        {found['bus']}")
    print_line(
        f"           append-only {durability['appendonly']}, synced {durability['appendfsync']}"
    )
    print_line(f"           {durability['meaning']}")
    for worker in found["workers"]:
        print_line(
            f"worker     {worker['name']}, {counted(len(worker['pipelines']), 'pipeline')}{_silent(worker)}"
        )
    if not found["workers"]:
        print_line(
            "worker     none: what is said waits until `memrelay worker` or `memrelay up` runs"
        )
    silent = {worker["name"]: _silent(worker) for worker in found["workers"]}
    for one in found["pipelines"]:
        print_line(
            f"pipeline   {one['name']} ({one['pipeline_uid']}): {_condition(one, silent.get(one['owner'], ''))}"
        )
    if not found["pipelines"]:
        print_line("pipeline   none: deploy one with `memrelay deploy FILE`")


def _silent(worker: dict[str, Any]) -> str:
    """Whether it may have ended, or hang: it calls in every 2 s, and nobody follows it at once
    where it was the last."""
    return f" (SILENT for {worker['silent_s']:.0f} s)" if worker["silent_s"] >= 2 * BEAT_S else ""


def _condition(one: dict[str, Any], silent: str) -> str:
    owned = f"served by {one['owner']}{silent}," if one["owner"] else "not served,"
    served = f"PAUSED, {one['paused']};" if one["paused"] else owned
    lag = (
        f"{one['lag']} waiting, the oldest for {one['oldest_s']:.0f} s"
        if one["lag"]
        else "nothing waiting"
    )
    later = f", {one['waiting']} to be tried again" if one["waiting"] else ""
    deaf = (
        f", {counted(one['gaps'], 'time')} deaf to PUBLISH for {one['deaf_s']:.0f} s in all"
        if one["gaps"]
        else ""
    )
    todo = f", {counted(one['vectors_todo'], 'vector')} to be made" if one["vectors_todo"] else ""
    vectors = f"{todo} ({one['vectors_fault']})" if one["vectors_fault"] else todo
    return f"{served} {one['rate']:g} a second, {lag}{later}{vectors}, {counted(one['dead_letters'], 'dead letter')}{deaf}"
