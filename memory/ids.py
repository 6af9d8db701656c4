"""Ids that a replay makes again: a uuid7 derived from the input that it stands for."""

from functools import lru_cache
from hashlib import blake2b

from memory.times import LAST_MS

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
