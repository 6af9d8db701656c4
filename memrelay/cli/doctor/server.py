"""Checks of the bus server: version, permissions, durability, limits, clock and replicas."""

import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from memrelay.bus.client.primary import count_answering
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BadAddress, BusRefused
from memrelay.bus.info import parse_info, read_version
from memrelay.bus.lease.workers import fix_cells
from memrelay.bus.permissions import (
    RefusedCommand,
    check_writable,
    list_refused_commands,
    server_user_rules,
)
from memrelay.cli.composition import bus_address
from memrelay.cli.doctor import DoctorContext, Finding, fault, join_names, ok, unknown, warning
from memrelay.cli.doctor.service import CATALOG_FAULTS, find_deployed
from memrelay.web.api.status import DURABILITIES, NOT_PERSISTENT
from memrelay.worker.limits import WorkerLimits

WARNING_OFFSET_S, FAULT_OFFSET_S = 1.0, 60.0
# Twice the longest silence of a worker.
MINIMUM_IDLE_S = 10
# Share of maxmemory above which a check warns.
HIGH_MEMORY = 0.9
# By the error code of the server.
REMEDIES = {
    "READONLY": "this server is a replica; set bus.url to its primary",
    "MASTERDOWN": (
        "this server is a replica without its primary; set bus.url to the primary, or promote the "
        "replica with REPLICAOF NO ONE"
    ),
    "LOADING": "wait until it has loaded its data; see its log",
    "BUSY": "wait, or end the script with SCRIPT KILL, and find the client that runs it",
    "OOM": "raise its maxmemory, or leave it unset",
    "MISCONF": "it cannot save its data; check its log and its disk",
    "NOREPLICAS": "restore its replicas, or lower min-replicas-to-write",
}
PERSIST = "and the same in its configuration file, or CONFIG REWRITE"
RENAMED = "undo rename-command in its configuration file, or use a server with this command"


def remedy_for(
    error: BusRefused,
    otherwise: str = "correct the user, the password or its permissions: MEMRELAY_BUS__URL",
) -> str:
    """Return the fix for an error that the server returns for every command."""
    if "DB index" in str(error):
        return (
            "use an existing database in bus.url, or raise `databases` in the configuration file "
            "of the server"
        )
    return REMEDIES.get(error.code, otherwise)


async def check_version(context: DoctorContext) -> list[Finding]:
    """Require version 7, which has the commands of Memrelay, and `cluster://` for a cluster."""
    found = await read_version(context.connection)
    if found is None:
        return [unknown("version", "its version", "INFO")]
    if found.is_too_old:
        remedy = "run Redis or Valkey 7 or newer, or leave bus.url empty; workers end until then"
        return [fault("version", f"the server is {found.name} {found.version}", remedy)]
    if found.in_cluster and not bus_address(context.settings).nodes:
        text = f"the server ({found.name} {found.version}) is part of a cluster"
        return [fault("version", text, "set bus.url to cluster://HOST:PORT,HOST:PORT")]
    return [ok("version", f"{found.name} {found.version}")]


async def check_password(context: DoctorContext) -> list[Finding]:
    """Check that every client needs a password. `memrelay acl` depends on it."""
    address = replace(bus_address(context.settings), username="", password="")
    try:
        async with ReconnectingConnection(address) as stranger:
            await stranger.call("PING")
    except BusRefused:
        return [ok("password", "the server requires a password")]
    text = (
        "the server's default user needs no password: every client that reaches the server can "
        "read and change all pipelines, and `memrelay acl` confines nobody"
    )
    remedy = f"CONFIG SET requirepass PASSWORD, {PERSIST}, and the password in MEMRELAY_BUS__URL"
    if not context.settings.bus.url:
        remedy = "restart the embedded server, which then creates a password"
    return [warning("password", text, remedy)]


async def check_writes(context: DoctorContext) -> list[Finding]:
    """Check that the server accepts writes."""
    try:
        await check_writable(context.connection)
    except BusRefused as error:
        if error.code == "NOPERM":
            return [unknown("writes", "whether it accepts writes", "SET of memrelay:*")]
        remedy = remedy_for(error, "see the server's log")
        return [fault("writes", f"the server refuses writes: {error}", remedy)]
    return [ok("writes", "the server accepts writes")]


async def check_durability(context: DoctorContext) -> list[Finding]:
    """Check that acknowledged data is on disk."""
    enabled = await read_config(context.connection, "appendonly")
    sync = await read_config(context.connection, "appendfsync")
    if enabled is None or sync is None:
        return [unknown("durability", "whether acknowledged data is on disk", "CONFIG GET")]
    meaning = DURABILITIES.get((enabled, sync), NOT_PERSISTENT)
    text = f"appendonly {enabled}, appendfsync {sync}: {meaning}"
    if enabled != "yes":
        remedy = f"CONFIG SET appendonly yes, appendfsync always, {PERSIST}"
        findings = [fault("durability", text, remedy)]
    elif sync == "always":
        findings = [ok("durability", text)]
    else:
        problem = warning if sync == "everysec" else fault
        findings = [problem("durability", text, f"CONFIG SET appendfsync always, {PERSIST}")]
    info = await _info(context.connection, "persistence")
    if info.get("aof_last_write_status", "ok") != "ok":
        text = "the last write to the append-only file failed"
        findings.append(fault("durability", text, "check the server's log and disk"))
    return findings


async def check_eviction(context: DoctorContext) -> list[Finding]:
    """Check that the server does not evict messages as if they were a cache."""
    policy = await read_config(context.connection, "maxmemory-policy")
    limit = await read_config(context.connection, "maxmemory")
    if policy is None or limit is None:
        return [unknown("eviction", "whether it evicts", "CONFIG GET")]
    text = f"maxmemory-policy {policy}, maxmemory {limit}"
    remedy = f"CONFIG SET maxmemory-policy noeviction, {PERSIST}"
    if policy == "noeviction":
        return [ok("eviction", f"{text}: nothing is evicted")]
    if limit == "0":
        text = f"{text}: if a limit is set, waiting messages may be evicted"
        return [warning("eviction", text, remedy)]
    return [fault("eviction", f"{text}: waiting messages may be evicted", remedy)]


async def check_memory(context: DoctorContext) -> list[Finding]:
    """Check the memory limit. At the limit, a server without eviction refuses writes."""
    info = await _info(context.connection, "memory")
    if "used_memory" not in info:
        return [unknown("memory", "its memory use", "INFO")]
    used, limit = int(info["used_memory"]), int(info.get("maxmemory", 0))
    allowed = f"of {limit >> 20} MiB (maxmemory)" if limit else "without a limit"
    text = f"the server uses {used >> 20} MiB {allowed}"
    remedy = f"CONFIG SET maxmemory to more, or to 0, {PERSIST}"
    if limit and used >= limit:
        return [fault("memory", f"{text}: it refuses messages, and workers wait", remedy)]
    if limit and used > limit * HIGH_MEMORY:
        return [warning("memory", text, remedy)]
    return [ok("memory", text)]


async def check_idle(context: DoctorContext) -> list[Finding]:
    """Check the idle timeout. An idle worker is silent for some seconds."""
    seconds = await read_config(context.connection, "timeout")
    if seconds is None:
        return [unknown("idle", "whether it closes idle connections", "CONFIG GET")]
    if not 0 < int(seconds) < MINIMUM_IDLE_S:
        return [ok("idle", f"timeout {seconds}: connections of workers stay open")]
    text = (
        f"timeout {seconds}: the server closes connections that are idle for {seconds} s, and "
        "workers must reconnect each time"
    )
    return [fault("idle", text, f"CONFIG SET timeout 0, {PERSIST}")]


async def check_clock(context: DoctorContext) -> list[Finding]:
    """Compare the clocks. The server creates ids and times; leases and expiry use both clocks."""
    before = time.time()
    try:
        seconds, micros = map(int, await context.connection.call("TIME"))
    except BusRefused:
        return [unknown("clock", "its time", "TIME")]
    offset_s = seconds + micros / 1e6 - (before + time.time()) / 2
    direction = "ahead" if offset_s > 0 else "behind"
    text = f"the server's clock is {abs(offset_s):.3f} s {direction}"
    remedy = "synchronize both clocks with NTP"
    if abs(offset_s) >= FAULT_OFFSET_S:
        return [fault("clock", text, remedy)]
    if abs(offset_s) >= WARNING_OFFSET_S:
        return [warning("clock", text, remedy)]
    return [ok("clock", text)]


async def _info(connection: ReconnectingConnection, section: str) -> dict[str, str]:
    """Return a section of INFO, or nothing if the server refuses the command."""
    try:
        return parse_info(await connection.call("INFO", section))
    except BusRefused:
        return {}


async def read_config(connection: ReconnectingConnection, name: str) -> str | None:
    """Return a configuration value of the server, or None if it refuses the command."""
    try:
        words: list[bytes] = await connection.call("CONFIG", "GET", name)
    except BusRefused:
        return None
    return words[1].decode(errors="replace") if len(words) == 2 else None


async def check_limits(context: DoctorContext) -> list[Finding]:
    """Check that a connection may carry a full batch of the longest messages, and its results.

    The server closes a connection beyond its limits. The worker would then fail again at the same
    message.
    """
    settings, cascade = context.settings, WorkerLimits().cascade_bytes
    # The results are sent twice, escaped.
    needed = {
        "client-output-buffer-limit": settings.worker.batch * settings.bus.max_message_bytes,
        "client-query-buffer-limit": 4 * cascade,
        "proto-max-bulk-len": 2 * cascade,
    }
    findings = []
    for name, minimum in needed.items():
        value = await read_config(context.connection, name)
        if value is None:
            return [unknown("limits", "the limits of one connection", "CONFIG GET")]
        allowed = min(_limits(value), default=minimum)
        if allowed < minimum:
            text = (
                f"{name} allows {allowed >> 20} MiB, but a worker's connection may need "
                f"{minimum >> 20}: the server would close it repeatedly"
            )
            new = '"normal 0 0 0"' if name == "client-output-buffer-limit" else minimum
            findings.append(warning("limits", text, f"CONFIG SET {name} {new}, {PERSIST}"))
    return findings or [ok("limits", "the limits of one connection are sufficient for a worker")]


def _limits(value: str) -> list[int]:
    """Return the limits in a configuration value, in bytes. 0 means no limit.

    The value is a number, or three numbers per client class. Workers are normal clients.
    """
    words = value.split()
    words = words[words.index("normal") + 1 :][:2] if "normal" in words else words
    return [int(word) for word in words if int(word)]


async def check_permissions(context: DoctorContext) -> list[Finding]:
    """Check the permissions of the user. Without one of them, a worker cannot serve anything."""
    uids = list[str]()
    with suppress(*CATALOG_FAULTS):  # check_catalog reports them
        uids = [one.uid for one in await find_deployed(context.settings)]
    try:
        refused = await list_refused_commands(context.connection, *uids[:1])
    except BusRefused as error:
        remedy = _grant() if error.code == "NOPERM" else RENAMED
        return [fault("permissions", f"the server refuses scripts: {error}", remedy)]
    missing = [one for one in refused if one.unknown]
    if missing:
        return [fault("permissions", f"the server lacks {_commands(missing)}", RENAMED)]
    if refused:
        return [fault("permissions", f"this user may not run {_commands(refused)}", _grant())]
    return [ok("permissions", "this user has all permissions that Memrelay needs")]


def _commands(refused: Iterable[RefusedCommand]) -> str:
    return join_names(list(dict.fromkeys(one.command for one in refused)))


def _grant() -> str:
    return f"as an administrator of the server: ACL SETUSER NAME {' '.join(server_user_rules())}"


LOSES = "a failover loses the last messages that no replica has yet, although they are acknowledged"
MIN_REPLICAS = (
    "set bus.min_replicas: a message is then acknowledged once so many replicas have it, and with "
    "the number of replicas a failover loses nothing"
)


async def check_replicas(context: DoctorContext) -> list[Finding]:
    """Compare the connected replicas with `bus.min_replicas`. A server alone has no finding."""
    wanted = bus_address(context.settings).min_replicas
    try:
        info = parse_info(await context.connection.call("INFO", "replication"))
    except BusRefused:
        return [unknown("replicas", "its replicas", "INFO")] if wanted else []
    online = sum("state=online" in value for name, value in info.items() if name[:5] == "slave")
    have = f"{online} {'replica is' if online == 1 else 'replicas are'} connected"
    if online < wanted:
        text = (
            f"{have}, and bus.min_replicas is {wanted}: HTTP and the command line refuse messages"
        )
        return [fault("replicas", text, "start more replicas, or lower bus.min_replicas")]
    if wanted:
        return [ok("replicas", f"{have}; {wanted} must have a message before it is acknowledged")]
    return [warning("replicas", f"{have}: {LOSES}", MIN_REPLICAS)] if online else []


async def check_watchers(context: DoctorContext) -> list[Finding]:
    """Check that all Sentinels, or nodes of a cluster, of `bus.url` know the primary."""
    address = bus_address(context.settings)
    if not address.watchers:
        return []
    try:
        await fix_cells(context.connection)
    except BadAddress as error:
        return [fault("cells", str(error), "use the same number on all hosts")]
    total, answering = len(address.watchers), await count_answering(address)
    kind = "nodes" if address.nodes else "Sentinels"
    of = "the keys" if address.nodes else repr(address.service)
    text = f"{answering} of {total} {kind} know a primary of {of}"
    if answering < total:
        remedy = "start the others, or correct bus.url: without a majority there is no failover"
        return [warning(kind.lower(), text, remedy)]
    return [ok(kind.lower(), text)]
