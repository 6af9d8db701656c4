"""What the user that Memrelay has at the server must be let do. The server is asked for all of it
at once, and nothing is done.

A server of one's own may have a user with few rights, and commands that were renamed or switched
off.
"""

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import orjson

from memrelay.bus.client.connection import run_script
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.keys import (
    CHANGES,
    GROUP,
    LISTENERS,
    PUBLIC,
    REMAKE,
    ROLL,
    ask_channel,
    fence_key,
    input_key,
    owner_key,
    reply_channel,
    stores_key,
    swarm_key,
    timers_key,
    worker_key,
)

NOBODY = "memrelay"  # where no pipeline's uid or worker's name is known
WHERE = (
    "resetkeys",
    "~pipeline:*",
    "~swarm:*",
    "~listeners:*",
    "~memrelay:*",
    "&*",
)  # for patterns of channels
# Without these less is told, or erased.
BESIDE = (
    "info",
    "config|get",
    "client|list",
    "client|kill",
    "client|no-evict",
    "scan",
    "pttl",
    "bgrewriteaof",
)

# ARGV: the commands, as JSON. Returns the numbers of those that are refused, and of those that
# there are not, as negatives; nothing where the server is too old to be asked.
_ASK = """
if not redis.acl_check_cmd then return false end
local refused = {}
for number, words in ipairs(cjson.decode(ARGV[1])) do
  local known, may = pcall(redis.acl_check_cmd, unpack(words))
  if not known then table.insert(refused, -number) elseif not may then table.insert(refused, number) end
end
return refused
"""


class Refused(NamedTuple):
    """What may not be done."""

    command: str  # with its key or channel
    unknown: bool  # the server has no such command


def own_rights() -> list[str]:
    """What follows `ACL SETUSER <name>` to let Memrelay's own user do what it must, and what it may
    be refused too."""
    commands = {_named(words) for words in _needed(NOBODY)} | {"eval", "select", *BESIDE}
    return [*WHERE, *[f"+{command}" for command in sorted(commands)]]


async def refused_of(line: ReconnectingConnection, uid: str = NOBODY) -> list[Refused]:
    """What this user may not do for the pipeline. Raises BusUnavailable, and BusRefused where it
    may not even ask (EVAL)."""
    needed = _needed(uid)
    numbers = await run_script(await line.open(), _ASK, (), orjson.dumps(needed)) or ()
    return [_refused(needed[abs(number) - 1], unknown=number < 0) for number in numbers]


def _refused(words: Sequence[str], *, unknown: bool) -> Refused:
    name = _named(words).upper().replace("|", " ")
    return Refused(
        name
        if unknown
        else " ".join([name, *[word for word in words if "{" in word or ":" in word][:1]]),
        unknown,
    )


def _named(words: Sequence[str]) -> str:
    """As an access control list has it: a command of several, `client|id`, by both words."""
    return "|".join(
        words[:2] if words[0] in ("client", "memory", "pubsub", "xgroup", "xinfo") else words[:1]
    )


def _needed(uid: str) -> list[list[str]]:
    """Every command that worker, web server and command line use, on each sort of key and
    channel."""
    entries, log, owner, stores = (
        input_key(uid),
        swarm_key(uid, "chat"),
        owner_key(uid),
        stores_key(uid),
    )
    timers, fence, lease, public = (
        timers_key(uid),
        fence_key(NOBODY),
        worker_key(NOBODY),
        swarm_key(PUBLIC, "news"),
    )
    lines = [
        "ping",
        "time",
        "multi",
        "exec",
        "client setname x",
        "client id",
        "client unblock 1",
        *_on(
            entries, "xadd * a b", "xlen", "xrange - +", "xrevrange + -", "xdel 0-1", "type", "del"
        ),
        f"xreadgroup group {GROUP} x streams {entries} >",
        f"xgroup create {entries} {GROUP} 0",
        f"xgroup delconsumer {entries} {GROUP} x",
        f"xinfo groups {entries}",
        f"xinfo consumers {entries} {GROUP}",
        f"xinfo stream {entries}",
        f"memory usage {entries}",
        *_on(
            log,
            "xadd * a b",
            "xrange - +",
            "xrevrange + -",
            "xdel 0-1",
            "publish x",
            "subscribe",
            "unsubscribe",
        ),
        *_on(
            public,
            "xadd * a b",
            "xrange - +",
            "xrevrange + -",
            "xdel 0-1",
            "publish x",
            "subscribe",
            "unsubscribe",
        ),
        f"xread streams {log} 0",
        f"xread streams {public} 0",
        f"pubsub numsub {log}",
        *_on(ask_channel(uid), "publish x", "subscribe"),
        *_on(reply_channel(uid, "x"), "publish x"),
        f"psubscribe {reply_channel('*', 'x')}",
        *_on(CHANGES, "publish x", "subscribe"),
        *_on(owner, "hget a", "hmget a b", "hset a b", "hdel a", "hincrby a 1"),
        *_on(timers, "hget a", "hset a b"),
        *_on(stores, "hgetall", "hset a b"),
        *_on(REMAKE, "hgetall", "hexists a", "hset a b", "hdel a"),
        *_on(fence, "set x", "exists", "watch", "del"),
        *_on(lease, "set x px 1", "exists", "mget", "del"),
        *_on(ROLL, "zadd 1 a", "zrem a", "zscore a", "zrangebyscore 0 1", "zremrangebyscore 0 1"),
        *_on(LISTENERS, "zadd 1 a", "zrem a", "zrange 0 -1", "zrangebylex - +"),
    ]
    return [line.split() for line in lines]


def _on(key: str, *commands: str) -> list[str]:
    """Commands with their key, or channel, after the name."""
    return [" ".join([name, key, *rest]) for name, *rest in map(str.split, commands)]


# The rules of the server's access control list (ACL, Redis and Valkey 7) that confine a client to
# one pipeline.

COMMANDS = (
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
SPECIAL = re.compile(r"[ \"'*?\[\]\\]")  # in the server's patterns, and in its command line


def client_rules(uid: str, public: Iterable[str] = ()) -> list[str]:
    """What follows `ACL SETUSER <name>`, but for the password: append to the input, read logs,
    speak, hear and ask on channels.

    The logs are the owner's to write, so they can only be read. The input can be read too, to see
    whether an entry is done.
    `public` are the pipeline's public swarms; a `?` stands for what has a meaning in a pattern.
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
        "-@all",
        *[f"+{command}" for command in COMMANDS],
    ]


# Whether the server takes writes. It is tried: one that is full, or only a replica, answers reads
# all the same.

KEPT_MS = 10_000


async def try_a_write(line: ReconnectingConnection) -> None:
    """Raises BusRefused and BusUnavailable."""
    await line.call("SET", f"memrelay:probe:{os.getpid()}", time.time_ns(), "PX", KEPT_MS)
