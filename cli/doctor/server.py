"""The bus's server: how new it is, whether it keeps what it acknowledges, and its clock."""

import sqlite3
import time
from collections.abc import Iterable

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.embedded.binary import MINIMUM_VERSION
from memrelay.bus.errors import BusRefused
from memrelay.bus.permissions import Refused, own_rights, refused_of, try_a_write
from memrelay.cli.doctor.finding import (
    DoctorContext,
    Finding,
    fault,
    ok,
    some_of,
    unknown_finding,
    warning,
)
from memrelay.cli.doctor.service import deployed_in
from memrelay.memory.errors import MemoryFault
from memrelay.web.api.status import DURABILITIES, NOT_PERSISTENT
from memrelay.worker.limits import WorkerLimits

OFF_S, FAR_OFF_S = 1.0, 60.0
LEAST_IDLE_S = 10  # twice what a worker is silent at most
SCARCE = 0.9  # of what it may use
REMEDIES = {  # by what the server answers
    "READONLY": "it is a replica; name its primary in bus.url",
    "MASTERDOWN": "it is a replica without its primary; name the primary in bus.url, or make it one with REPLICAOF NO ONE",
    "LOADING": "wait until it has read its data; see its log",
    "BUSY": "wait, or end the script with SCRIPT KILL, and find out who runs it",
    "OOM": "raise its maxmemory, or leave it unset",
    "MISCONF": "it cannot save its data; see its log, and its disk",
    "NOREPLICAS": "bring its replicas back, or lower min-replicas-to-write",
}
KEEP_IT = "and the same in its configuration file, or CONFIG REWRITE"


def remedy_for(
    error: BusRefused,
    otherwise: str = "correct the user, the password or its rights: MEMRELAY_BUS__URL",
) -> str:
    """What to do about what the server answers to everything."""
    if "DB index" in str(error):
        return "name a database in bus.url that the server has, or raise `databases` in its configuration file"
    return REMEDIES.get(error.code, otherwise)


async def check_version(patient: DoctorContext) -> list[Finding]:
    """Commands that Memrelay uses came with version 7."""
    told = await _info(patient.line, "server")
    name, version = (
        told.get("server_name", "redis"),
        told.get("valkey_version") or told.get("redis_version", ""),
    )
    if not version:
        return [unknown_finding("version", "its version", "INFO")]
    if int(version.split(".")[0]) < MINIMUM_VERSION[0]:
        return [
            fault(
                "version",
                f"the server is {name} {version}",
                "run Redis or Valkey 7 or newer, or leave bus.url empty",
            )
        ]
    if "cluster" in (told.get("server_mode"), told.get("redis_mode")):
        return [
            fault(
                "version",
                f"the server is part of a cluster ({name} {version}), and pipelines share some keys",
                "take one with cluster-enabled no",
            )
        ]
    return [ok("version", f"{name} {version}")]


async def check_writes(patient: DoctorContext) -> list[Finding]:
    """Whether it takes anything."""
    try:
        await try_a_write(patient.line)
    except BusRefused as error:
        if error.code == "NOPERM":
            return [unknown_finding("writes", "whether it takes writes", "SET of memrelay:*")]
        return [
            fault(
                "writes",
                f"the server takes no writes: {error}",
                remedy_for(error, "see the server's log"),
            )
        ]
    return [ok("writes", "the server takes them")]


async def check_durability(patient: DoctorContext) -> list[Finding]:
    """Whether what is acknowledged is on disk."""
    enabled, sync = (
        await config_of(patient.line, "appendonly"),
        await config_of(patient.line, "appendfsync"),
    )
    if enabled is None or sync is None:
        return [
            unknown_finding("durability", "whether it keeps what it acknowledges", "CONFIG GET")
        ]
    text = f"appendonly {enabled}, appendfsync {sync}: {DURABILITIES.get((enabled, sync), NOT_PERSISTENT)}"
    found = []
    if enabled != "yes":
        found.append(
            fault("durability", text, f"CONFIG SET appendonly yes, appendfsync always, {KEEP_IT}")
        )
    elif sync == "always":
        found.append(ok("durability", text))
    else:
        judged = warning if sync == "everysec" else fault
        found.append(judged("durability", text, f"CONFIG SET appendfsync always, {KEEP_IT}"))
    if (await _info(patient.line, "persistence")).get("aof_last_write_status", "ok") != "ok":
        found.append(
            fault(
                "durability",
                "the last write to the append-only file failed",
                "look at the server's log and disk",
            )
        )
    return found


async def check_eviction(patient: DoctorContext) -> list[Finding]:
    """A server that evicts may take an input for a cache."""
    policy, limit = (
        await config_of(patient.line, "maxmemory-policy"),
        await config_of(patient.line, "maxmemory"),
    )
    if policy is None or limit is None:
        return [unknown_finding("eviction", "whether it evicts", "CONFIG GET")]
    text, remedy = (
        f"maxmemory-policy {policy}, maxmemory {limit}",
        f"CONFIG SET maxmemory-policy noeviction, {KEEP_IT}",
    )
    if policy == "noeviction":
        return [ok("eviction", f"{text}: nothing is evicted")]
    if limit == "0":
        return [
            warning(
                "eviction", f"{text}: as soon as a limit is set, what waits may be evicted", remedy
            )
        ]
    return [fault("eviction", f"{text}: what waits may be evicted", remedy)]


async def check_room(patient: DoctorContext) -> list[Finding]:
    """At its limit a server that does not evict refuses whatever would grow it."""
    told = await _info(patient.line, "memory")
    if "used_memory" not in told:
        return [unknown_finding("memory", "how much memory it uses", "INFO")]
    used, limit = int(told["used_memory"]), int(told.get("maxmemory", 0))
    text = f"the server uses {used >> 20} MiB, {f'and may use {limit >> 20} (maxmemory)' if limit else 'without a limit'}"
    remedy = f"CONFIG SET maxmemory to more, or to 0, {KEEP_IT}"
    if limit and used >= limit:
        return [fault("memory", f"{text}: it refuses what is said, and workers wait", remedy)]
    return [
        warning("memory", text, remedy) if limit and used > limit * SCARCE else ok("memory", text)
    ]


async def check_idle(patient: DoctorContext) -> list[Finding]:
    """A worker that has nothing to do is silent for some seconds."""
    seconds = await config_of(patient.line, "timeout")
    if seconds is None:
        return [
            unknown_finding("idle", "whether it ends connections that are silent", "CONFIG GET")
        ]
    if not 0 < int(seconds) < LEAST_IDLE_S:
        return [ok("idle", f"timeout {seconds}: connections of workers stay open")]
    return [
        fault(
            "idle",
            f"timeout {seconds}: the server ends connections that are silent for {seconds} s, and workers begin "
            "anew each time",
            f"CONFIG SET timeout 0, {KEEP_IT}",
        )
    ]


async def check_clock(patient: DoctorContext) -> list[Finding]:
    """Ids and times are the server's, leases and expiry are told by both."""
    before = time.time()
    try:
        seconds, micros = map(int, await patient.line.call("TIME"))
    except BusRefused:
        return [unknown_finding("clock", "its time", "TIME")]
    off_s = seconds + micros / 1e6 - (before + time.time()) / 2
    text, remedy = (
        f"the server's clock is {abs(off_s):.3f} s {'ahead' if off_s > 0 else 'behind'}",
        "keep both by NTP",
    )
    if abs(off_s) >= FAR_OFF_S:
        return [fault("clock", text, remedy)]
    return [warning("clock", text, remedy) if abs(off_s) >= OFF_S else ok("clock", text)]


async def _info(line: ReconnectingConnection, section: str) -> dict[str, str]:
    """A section of INFO; empty where the server refuses to tell."""
    try:
        text = (await line.call("INFO", section)).decode(errors="replace")
    except BusRefused:
        return {}
    return dict(row.split(":", 1) for row in text.splitlines() if ":" in row)


async def config_of(line: ReconnectingConnection, name: str) -> str | None:
    """A value of the server's configuration; None where it refuses to tell."""
    try:
        words: list[bytes] = await line.call("CONFIG", "GET", name)
    except BusRefused:
        return None
    return words[1].decode(errors="replace") if len(words) == 2 else None


# What the server bounds of one connection: past a bound it closes it, and a worker comes to the
# same place again.


async def check_limits(patient: DoctorContext) -> list[Finding]:
    """Whether a full batch of the longest messages can be read, and the largest cascade be told."""
    settings, cascade = patient.settings, WorkerLimits().cascade_bytes
    least = {
        "client-output-buffer-limit": settings.worker.batch * settings.bus.max_message_bytes,
        "client-query-buffer-limit": 4 * cascade,
        "proto-max-bulk-len": 2 * cascade,
    }  # it is said twice, escaped
    found = []
    for name, enough in least.items():
        told = await config_of(patient.line, name)
        if told is None:
            return [unknown_finding("limits", "what one connection may have", "CONFIG GET")]
        allowed = min(_bounds(told), default=enough)
        if allowed < enough:
            found.append(
                warning(
                    "limits",
                    f"{name} allows {allowed >> 20} MiB, and a connection of a worker's may need "
                    f"{enough >> 20}: the server would close it, again and again",
                    _remedy(name, enough),
                )
            )
    return found or [ok("limits", "what one connection may have is enough for a worker")]


def _bounds(told: str) -> list[int]:
    """In bytes: a number, or of each sort of client its name, two bounds and a time. 0 is none;
    only workers' reads matter."""
    words = told.split()
    words = words[words.index("normal") + 1 :][:2] if "normal" in words else words
    return [int(word) for word in words if int(word)]


def _remedy(name: str, enough: int) -> str:
    value = '"normal 0 0 0"' if name == "client-output-buffer-limit" else enough
    return f"CONFIG SET {name} {value}, {KEEP_IT}"


# Whether the server lets its user do all that Memrelay does there.

RENAMED = "undo rename-command in its configuration file, or take a server that has it"


async def check_rights(patient: DoctorContext) -> list[Finding]:
    """One that is missing keeps a worker from serving anything, whichever it is."""
    try:
        uids = [one.uid for one in await deployed_in(patient.settings)]
    except (MemoryFault, sqlite3.Error):
        uids = []  # told by another check
    try:
        refused = await refused_of(patient.line, *uids[:1])
    except BusRefused as error:
        return [
            fault(
                "rights",
                f"the server refuses scripts: {error}",
                _let() if error.code == "NOPERM" else RENAMED,
            )
        ]
    unknown = [one for one in refused if one.unknown]
    if unknown:
        return [fault("rights", f"the server has no {_named(unknown)}", RENAMED)]
    if refused:
        return [fault("rights", f"this user may not do {_named(refused)}", _let())]
    return [ok("rights", "this user may do all that is needed")]


def _named(refused: Iterable[Refused]) -> str:
    return some_of(list(dict.fromkeys(one.command for one in refused)))


def _let() -> str:
    return f"an administrator of the server lets it: ACL SETUSER NAME {' '.join(own_rights())}"
