"""`memrelay status`: show what runs."""

from typing import Any

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.lease.workers import HEARTBEAT_S
from memrelay.cli.composition import bus_address, bus_name, open_catalog, run
from memrelay.cli.options import Json
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import counted, format_size
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.status import read_status


def status(*, as_json: Json = False) -> None:
    """Show workers, pipelines, lag, dead letters and durability."""

    async def command(settings: Settings) -> None:
        async with (
            open_catalog(settings) as catalog,
            ReconnectingConnection(bus_address(settings)) as connection,
        ):
            report = {"bus": bus_name(settings)} | await read_status(catalog, connection)
        if as_json:
            print_json(report)
        else:
            _print(report)

    run(command)


def _print(report: dict[str, Any]) -> None:
    durability = report["durability"]
    print_line(f"bus        {report['bus']}")
    print_line(
        f"           append-only {durability['appendonly']}, synced {durability['appendfsync']}"
    )
    print_line(f"           {durability['meaning']}")
    print_line(f"storage    {_describe_storage(report['storage'])}")
    for worker in report["workers"]:
        served = counted(len(worker["pipelines"]), "pipeline")
        print_line(f"worker     {worker['name']}, {served}{_silence(worker)}")
    if not report["workers"]:
        print_line("worker     none: messages wait until `memrelay worker` or `memrelay up` runs")
    silent = {worker["name"]: _silence(worker) for worker in report["workers"]}
    for one in report["pipelines"]:
        condition = _condition(one, silent.get(one["owner"], ""))
        print_line(f"pipeline   {one['name']} ({one['pipeline_uid']}): {condition}")
    if not report["pipelines"]:
        print_line("pipeline   none: deploy one with `memrelay deploy FILE`")


def _describe_storage(storage: dict[str, Any]) -> str:
    limit = storage["bus_max_memory_bytes"]
    memory = f"bus memory {format_size(storage['bus_memory_bytes'])}"
    replicas = f"{counted(storage['bus_replicas'], 'replica')}, " if storage["bus_replicas"] else ""
    postgres = storage["postgres_bytes"]
    database = f"PostgreSQL {format_size(postgres)}, " if postgres else ""
    backup = (
        f"last backup {format_time(storage['last_backup_at'])}"
        if storage["last_backup_at"]
        else "no backup yet"
    )
    return (
        f"{memory}{f' of {format_size(limit)}' if limit else ''}, {replicas}append-only file "
        f"{format_size(storage['bus_aof_bytes'])}, {database}"
        f"{format_size(storage['disk_free_bytes'])} of disk free, {backup}"
    )


def _silence(worker: dict[str, Any]) -> str:
    """Return a mark for a worker without a recent heartbeat. It may have ended, or hang."""
    return (
        f" (SILENT for {worker['silent_s']:.0f} s)" if worker["silent_s"] >= 2 * HEARTBEAT_S else ""
    )


def _condition(one: dict[str, Any], silence: str) -> str:
    owned = f"served by {one['owner']}{silence}," if one["owner"] else "not served,"
    served = f"PAUSED, {one['paused']};" if one["paused"] else owned
    lag = (
        f"{one['lag']} waiting, the oldest for {one['oldest_s']:.0f} s"
        if one["lag"]
        else "nothing waiting"
    )
    parts = [lag]
    if one["waiting"]:
        parts.append(f"{one['waiting']} to be retried")
    if one["deferred_calls"]:
        parts.append(counted(one["deferred_calls"], "open deferred call"))
    if one["vectors_todo"]:
        parts.append(f"{counted(one['vectors_todo'], 'vector')} to compute")
    vectors_fault = f" ({one['vectors_fault']})" if one["vectors_fault"] else ""
    erasure = f", ERASURE WAITS: {one['erasure_fault']}" if one["erasure_fault"] else ""
    dead_letters = [counted(one["dead_letters"], "dead letter")]
    if one["gaps"]:
        gaps = counted(one["gaps"], "gap")
        dead_letters.append(f"{gaps} without a PUBLISH listener, {one['deaf_s']:.0f} s in total")
    return (
        f"{served} {one['rate']:g} a second, {', '.join(parts)}{vectors_fault}, "
        f"{', '.join(dead_letters)}{erasure}"
    )
