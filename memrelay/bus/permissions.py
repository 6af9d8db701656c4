"""Permissions of Redis users (ACL): Memrelay's user, and clients confined to one pipeline.

A server may have renamed commands or switched them off, and its users may lack permissions.
"""

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import (
    CHANGES,
    GROUP,
    PUBLIC,
    all_cells,
    ask_channel,
    changed_channel,
    fence_key,
    find_cell,
    input_key,
    listeners_key,
    live_channel,
    owner_key,
    probe_key,
    reindex_key,
    reply_channel,
    reply_pattern,
    stores_key,
    swarm_key,
    timers_key,
    webhook_changes_key,
    webhook_requests_key,
    worker_key,
    workers_key,
)

# Stands for the uid of a pipeline or the name of a worker.
NOBODY = "memrelay"
KEY_RULES = (
    "resetkeys",
    "~pipeline:*",
    "~swarm:*",
    "~listeners:*",
    "~memrelay:*",
    "&*",  # patterns of channels need it
)
# Without these commands Memrelay reports or erases less.
OPTIONAL_COMMANDS = (
    "info",
    "config|get",
    "client|list",
    "client|kill",
    "client|no-evict",
    "scan",
    "pttl",
    "bgrewriteaof",
)
CLIENT_COMMANDS = (
    "xadd",
    "xlen",
    "xrange",
    "xrevrange",
    "xread",
    "publish",
    "subscribe",
    "unsubscribe",
    "ping",
    "hello",
    "auth",
    "quit",
    "client|setname",
    "client|setinfo",
    "client|id",
    "multi",
    "exec",
    "discard",
)
# Commands whose permission is named by both words, such as `client|id`.
COMPOUND = ("client", "memory", "pubsub", "xgroup", "xinfo")
# Special characters in the server's patterns and on its command line.
SPECIAL = re.compile(r"[ \"'*?\[\]\\]")
# TTL of the key that `try_a_write` sets.
PROBE_TTL_MS = 10_000

# ARGV: the commands as JSON. Returns the numbers of those that this user may not run, and as
# negatives of those that do not exist; nothing if the server is too old to check.
_CHECK = """
if not redis.acl_check_cmd then return false end
local refused = {}
for number, words in ipairs(cjson.decode(ARGV[1])) do
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not known then
    table.insert(refused, -number)
  elseif not may then
    table.insert(refused, number)
  end
end
return refused
"""


class RefusedCommand(NamedTuple):
    """A command that the user may not run, with its key or channel."""

    command: str
    unknown: bool  # the server has no such command


def server_user_rules() -> list[str]:
    """Return the rules for Memrelay's own user, to follow `ACL SETUSER <name>`.

    They include OPTIONAL_COMMANDS.
    """
    commands = {_permission(words) for words in _needed_commands(NOBODY)}
    commands |= {"eval", "select", *OPTIONAL_COMMANDS}
    return [*KEY_RULES, *[f"+{command}" for command in sorted(commands)]]


async def list_refused_commands(
    client: ReconnectingConnection, uid: str = NOBODY
) -> list[RefusedCommand]:
    """Return the needed commands that this user may not run for the pipeline `uid`.

    No command runs. Raises BusUnavailable, and BusRefused if the user may not run EVAL.
    """
    needed = _needed_commands(uid)
    numbers = await client.run_script(_CHECK, (), orjson.dumps(needed)) or ()
    return [_describe(needed[abs(number) - 1], unknown=number < 0) for number in numbers]


def client_rules(uid: str, public: Iterable[str] = ()) -> list[str]:
    """Return the rules that confine a client to one pipeline, except its password.

    The client may append to the input, read it and the swarm logs, publish, subscribe, ask and
    listen for changes.
    Only the owner writes logs. `public` are the pipeline's public swarms. In their names a `?`
    replaces characters that are special in a pattern.
    """
    swarms = [
        swarm_key(uid, "*"),
        *[swarm_key(PUBLIC, SPECIAL.sub("?", swarm)) for swarm in public],
    ]
    return [
        "reset",
        "on",
        f"~{input_key(uid)}",
        *[rule for key in swarms for rule in (f"%R~{key}", f"&{key}")],
        f"&{ask_channel(uid)}",
        f"&{reply_channel(uid, '*')}",
        f"&{changed_channel(uid)}",
        "-@all",
        *[f"+{command}" for command in CLIENT_COMMANDS],
    ]


async def check_writable(client: ReconnectingConnection) -> None:
    """Write a short-lived key: a full server, or a replica, still answers reads.

    Raises BusRefused and BusUnavailable.
    """
    for cell in client.cells:
        key = probe_key(str(os.getpid()), cell)
        await client.call("SET", key, time.time_ns(), "PX", PROBE_TTL_MS)


def _describe(words: Sequence[str], *, unknown: bool) -> RefusedCommand:
    name = _permission(words).upper().replace("|", " ")
    if unknown:
        return RefusedCommand(name, unknown)
    keys = [word for word in words if "{" in word or ":" in word]
    return RefusedCommand(" ".join([name, *keys[:1]]), unknown)


def _permission(words: Sequence[str]) -> str:
    """Return a command as ACL rules name it."""
    return "|".join(words[:2] if words[0] in COMPOUND else words[:1])


def _needed_commands(uid: str) -> list[list[str]]:
    """Return all commands that worker, web server and CLI need, on each kind of key."""
    lines = [*_stream_commands(uid), *_channel_commands(uid), *_hash_commands(uid)]
    lines += _worker_commands()
    return [line.split() for line in lines]


def _stream_commands(uid: str) -> list[str]:
    entries = input_key(uid)
    lines = _on(
        *(entries, "xadd * a b", "xlen", "xrange - +", "xrevrange + -", "xdel 0-1", "type", "del")
    )
    lines += [
        f"xreadgroup group {GROUP} x streams {entries} >",
        f"xgroup create {entries} {GROUP} 0",
        f"xgroup delconsumer {entries} {GROUP} x",
        f"xinfo groups {entries}",
        f"xinfo consumers {entries} {GROUP}",
        f"xinfo stream {entries}",
        f"memory usage {entries}",
    ]
    requests = webhook_requests_key(uid, "x", is_refused=True)
    lines += _on(requests, "xadd * a b", "xrevrange + -", "expire 1")
    lines += _on(webhook_changes_key(uid), "incr", "get", "expire 1")
    for log in _logs(uid):
        lines += _on(
            log, "xadd * a b", "xrange - +", "xrevrange + -", "xdel 0-1", "xlen", "xtrim maxlen 1"
        )
        lines += [f"xread streams {log} 0", f"memory usage {log}"]
    return lines


def _channel_commands(uid: str) -> list[str]:
    lines = [
        f"pubsub numsub {swarm_key(uid, 'chat')}",
        *_on(ask_channel(uid), "publish x", "subscribe"),
        *_on(reply_channel(uid, "x"), "publish x"),
        *_on(changed_channel(uid), "publish x", "subscribe", "unsubscribe"),
        *_on(live_channel(uid), "publish x", "subscribe", "unsubscribe"),
        f"psubscribe {reply_pattern('x')}",
        *_on(CHANGES, "publish x", "subscribe"),
    ]
    for log in _logs(uid):
        lines += _on(log, "publish x", "subscribe", "unsubscribe")
    return lines


def _hash_commands(uid: str) -> list[str]:
    return [
        *_on(owner_key(uid), "hget a", "hmget a b", "hset a b", "hdel a", "hincrby a 1"),
        *_on(timers_key(uid), "hget a", "hset a b"),
        *_on(stores_key(uid), "hgetall", "hset a b"),
        *_on(reindex_key(find_cell(uid)), "hgetall", "hexists a", "hset a b", "hdel a"),
    ]


def _worker_commands() -> list[str]:
    cell = all_cells()[0]
    return [
        *("ping", "time", "multi", "exec", "client setname x", "client id", "client unblock 1"),
        *("wait 1 1", "role"),
        *_on(fence_key(NOBODY), "set x", "exists", "watch", "del"),
        *_on(worker_key(NOBODY), "set x px 1", "exists", "mget", "del"),
        *_on(
            workers_key(cell),
            "zadd 1 a",
            "zrem a",
            "zscore a",
            "zrangebyscore 0 1",
            "zremrangebyscore 0 1",
        ),
        *_on(listeners_key(), "zadd 1 a", "zrem a", "zrange 0 -1", "zrangebylex - +"),
    ]


def _logs(uid: str) -> tuple[str, str]:
    return swarm_key(uid, "chat"), swarm_key(PUBLIC, "news")


def _on(key: str, *commands: str) -> list[str]:
    """Insert a key or channel after the name of each command."""
    return [" ".join([name, key, *rest]) for name, *rest in map(str.split, commands)]
