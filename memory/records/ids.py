"""Ids that a replay makes again: a uuid7 derived from the input that it stands for."""

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Literal

from memrelay.memory.timestamps import LAST_MS

SEQ_BITS = 24
SEQ_MASK = (1 << SEQ_BITS) - 1
SHORT = 8  # digits of a number that may be above that
NOISE_BITS = 50
NOISE_MASK = (1 << NOISE_BITS) - 1
MIDDLE = 0x7000_8000  # of the third and the fourth part: version and variant


def derive_guid(uid: str, input_id: str, agent: str, index: int) -> str:
    """The guid of the `index`-th record that `agent` of pipeline `uid` makes of an input. The same
    every time.

    `input_id` begins with a stream entry's id, `<ms>-<seq>`: a uuid7 (RFC 9562) takes its time from
    the first number and
    counts within the millisecond by the second, so that a burst's records lie beside each other in
    the index. What is left,
    50 bits, tells apart what different agents and pipelines make of inputs with the same number.
    """
    ms, _, rest = input_id.partition("-")
    seq, way = (rest, "") if len(rest) < SHORT and "." not in rest else _parted(rest)
    high, low = _salt(uid, agent, way, index)
    count = int(seq)
    middle = (
        high | (count & 0xFFF000) << 4 | (count & 0xFFF) << 2
    )  # as bytes: to format one number costs more than all this
    return f"{_time(ms)}-{middle.to_bytes(4).hex('-', 2)}-{low}"


def time_of(input_id: str) -> int:
    """When the input entered the bus, Unix ms by the server's clock; LAST_MS at most, whatever id a
    client gave it."""
    return _ms(input_id[: input_id.find("-")])


@lru_cache(64)
def _ms(digits: str) -> int:
    """Of a burst they are all the same, and to read or write a number costs more than to look it
    up."""
    return min(int(digits), LAST_MS)


def _parted(rest: str) -> tuple[str, str]:
    """(number within the millisecond, what comes after). A continuation's id goes on after the
    entry's."""
    seq, _, way = rest.partition(".")
    count = int(seq)
    return (
        (seq, way) if count <= SEQ_MASK else (str(count & SEQ_MASK), f"{count >> SEQ_BITS}.{way}")
    )


@lru_cache(64)
def _time(ms: str) -> str:
    """The first two parts of a uuid7. Of a burst they are all the same."""
    time = int(ms) & 0xFFFF_FFFF_FFFF
    return f"{time >> 16:08x}-{time & 0xFFFF:04x}"


@lru_cache(4096)
def _salt(uid: str, agent: str, way: str, index: int) -> tuple[int, str]:
    """50 bits: the last two of a uuid's fourth part, with what stands there in each and in the
    third; and its fifth."""
    digest = blake2b(f"{uid}\n{agent}\n{way}\n{index}".encode(), digest_size=8).digest()
    noise = int.from_bytes(digest) & NOISE_MASK
    return MIDDLE | noise >> 48, f"{noise & NOISE_MASK >> 2:012x}"


# Ids of named memories and their entries (seed 004): they carry their pipeline, so that who has
# one finds the owner.
#
# mem_<uid>_<32 hex digits>     me_<uid>_<32 hex digits>
#
# An entry's hex digits are the guid of its record. A store that is no pipeline's says `local` for the
# uid.

ID = re.compile(
    r"(mem|me)_([A-Za-z0-9_-]{1,64})_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})"
)
HEX = re.compile("[0-9a-f]{32}")
LOCAL = "local"
Sort = Literal["mem", "me"]


def make_id(sort: Sort, memory_id: str, guid: str) -> str:
    """The id of what has that guid in the store at `memory_id`."""
    return f"{sort}_{uid_of_store(memory_id)}_{guid.replace('-', '')}"


def uid_of(sort: Sort, given: str) -> str:
    """The uid of the pipeline that an id carries; "" for what is no such id."""
    found = ID.fullmatch(given)
    return found[2] if found is not None and found[1] == sort else ""


def guid_of(sort: Sort, memory_id: str, given: str) -> str:
    """The guid that an id of that store carries; "" for what is none."""
    found = ID.fullmatch(given)
    is_ours = found is not None and found[1] == sort and found[2] == uid_of_store(memory_id)
    return "-".join(found.groups()[2:]) if found is not None and is_ours else ""


def uid_of_store(memory_id: str) -> str:
    """The pipeline whose store that is."""
    root, _, rest = memory_id.partition("/")
    return rest.partition("/")[0] if root == "instances" and "/" in rest else LOCAL
