"""Ids: guids that stay the same on a replay, ids of named memories and entries, and uids in them.

A derived guid is a uuid7 that is computed from its input's id.
"""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from memrelay.memory.engine.timestamps import LAST_MS

SEQ_BITS = 24
SEQ_MASK = (1 << SEQ_BITS) - 1
# Sequence numbers with fewer digits are below 2 ** SEQ_BITS.
SHORT_DIGITS = 8
NOISE_BITS = 50
NOISE_MASK = (1 << NOISE_BITS) - 1
DERIVED = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# Version and variant bits, in the third and fourth part of the uuid.
VERSION_BITS = 0x7000_8000
# Ids of named memories and their entries (seed 004). They contain the pipeline's uid, which leads
# to the owner: mem_<uid>_<32 hex digits> and me_<uid>_<32 hex digits>. An entry's digits are its
# record's guid. The uid is `local` for a store outside of pipelines.
ID = re.compile(
    r"(mem|me)_([A-Za-z0-9_-]{1,64})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})"
)
HEX = re.compile("[0-9a-f]{32}")
LOCAL_UID = "local"
IdPrefix = Literal["mem", "me"]
# Stands for the uid of the pipeline in the lines of an export.
UID = "${pipeline_uid}"
# The id of the chat of a swarm: `chat:<uid>/<swarm>`.
CHAT = "chat:"


def derive_guid(uid: str, input_id: str, agent: str, index: int) -> str:
    """Return the guid of the `index`-th record that `agent` of pipeline `uid` creates from an
    input.

    `input_id` begins with the id of a stream entry, `<ms>-<seq>`. The uuid7 (RFC 9562) takes its
    time from the first number and its counter from the second, so that records of a burst are
    adjacent in the index. The other 50 bits distinguish agents and pipelines.
    """
    ms, _, rest = input_id.partition("-")
    seq, path = (
        (rest, "") if len(rest) < SHORT_DIGITS and "." not in rest else _split_sequence(rest)
    )
    high, low = _salt(uid, agent, path, index)
    count = int(seq)
    # Bytes, because formatting a number costs more than all of this.
    middle = high | (count & 0xFFF000) << 4 | (count & 0xFFF) << 2
    return f"{_format_time(ms)}-{middle.to_bytes(4).hex('-', 2)}-{low}"


def input_of_guid(guid: str) -> str:
    """Return the id of the entry from which a guid derives, "" if it does not derive from one.

    The sequence number is the part of it that the guid holds, which is all of it for entries whose
    id the server made.
    """
    if not DERIVED.fullmatch(guid):
        return ""
    value = int(guid.replace("-", ""), 16)
    high, low = value >> 64 & 0xFFF, value >> 50 & 0xFFF
    return f"{value >> 80}-{high << 12 | low}"


def input_time_ms(input_id: str) -> int:
    """Return the time at which the input entered the bus, Unix ms by the server's clock.

    It is at most LAST_MS, even if a client set a larger id.
    """
    return _parse_ms(input_id[: input_id.find("-")])


@lru_cache(64)
def _parse_ms(digits: str) -> int:
    """Cached: all inputs of a burst share the value, and parsing costs more than a lookup."""
    return min(int(digits), LAST_MS)


def _split_sequence(rest: str) -> tuple[str, str]:
    """Return (sequence number within the millisecond, rest).

    A continuation's id is the entry's id with a suffix.
    """
    seq, _, path = rest.partition(".")
    count = int(seq)
    return (
        (seq, path) if count <= SEQ_MASK else (str(count & SEQ_MASK), f"{count >> SEQ_BITS}.{path}")
    )


@lru_cache(64)
def _format_time(ms: str) -> str:
    """Return the first two parts of a uuid7. Cached: all ids of a burst share them."""
    time = int(ms) & 0xFFFF_FFFF_FFFF
    return f"{time >> 16:08x}-{time & 0xFFFF:04x}"


@lru_cache(4096)
def _salt(uid: str, agent: str, path: str, index: int) -> tuple[int, str]:
    """Return 50 bits that depend on the origin: the fourth part's top two bits, merged with
    VERSION_BITS, and the fifth part.
    """
    digest = blake2b(f"{uid}\n{agent}\n{path}\n{index}".encode(), digest_size=8).digest()
    noise = int.from_bytes(digest) & NOISE_MASK
    return VERSION_BITS | noise >> 48, f"{noise & NOISE_MASK >> 2:012x}"


def make_id(prefix: IdPrefix, memory_id: str, guid: str) -> str:
    """Return the id of the object with that guid in the store at `memory_id`."""
    return f"{prefix}_{uid_of_store(memory_id)}_{guid.replace('-', '')}"


def uid_of(prefix: IdPrefix, ident: str) -> str:
    """Return the pipeline uid in an id, "" if the id is malformed or has another prefix."""
    match = ID.fullmatch(ident)
    return match[2] if match is not None and match[1] == prefix else ""


def guid_of(prefix: IdPrefix, memory_id: str, ident: str) -> str:
    """Return the guid in an id of that store, "" if the id is malformed or belongs to another
    store.
    """
    match = ID.fullmatch(ident)
    is_ours = match is not None and match[1] == prefix and match[2] == uid_of_store(memory_id)
    return "-".join(match.groups()[2:]) if match is not None and is_ours else ""


def uid_of_store(memory_id: str) -> str:
    """Return the uid of the pipeline that the store belongs to."""
    root, _, rest = memory_id.partition("/")
    return rest.partition("/")[0] if root == "instances" and "/" in rest else LOCAL_UID


def replace_uid(name: str, before: str, after: str) -> str:
    """Replace the uid in the id of a named memory, in the `memory_id` of a store, in the id of a
    chat, and at the end of the id of a thread. Return other names unchanged.
    """
    own = f"mem_{before}_"
    if name.startswith(own) and HEX.fullmatch(name, len(own)):
        return f"mem_{after}_{name[len(own) :]}"
    for start in ("instances/", CHAT):
        folder = f"{start}{before}/"
        if name.startswith(folder):
            return f"{start}{after}/{name.removeprefix(folder)}"
    if name.endswith(f":{before}"):
        return f"{name.removesuffix(before)}{after}"
    return name
