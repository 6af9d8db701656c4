"""What comes back of our own is passed over; whatever others new_message in between is heard, once,
wherever the bytes are cut."""

import asyncio
from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from memrelay.bus.client.connection import Connection
from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import bulk, pack
from memrelay.bus.codec import encode, is_own_copy
from memrelay.bus.message import new_message
from tests.support.copies import live_copy

CHANNELS = ["swarm:{a}:chat", "swarm:{a}:inner"]
Said = tuple[str, bytes]  # channel, payload


def make_payload(text: str) -> bytes:
    return encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))


def make_copy(text: str) -> bytes:
    return live_copy(b"1700000000000-1", 0, make_payload(text))


texts, channels = st.text(max_size=20), st.sampled_from(CHANNELS)
of_others = st.tuples(channels, texts.map(make_payload)).map(lambda said: [said])
of_ours = st.lists(st.tuples(channels, texts.map(make_copy)), min_size=1, max_size=4)  # one MULTI
events = st.lists(of_others | of_ours, max_size=10)
ONE_OF_EACH: list[list[Said]] = [
    [(CHANNELS[0], make_payload("tea"))],
    [(CHANNELS[0], make_copy("tea"))],
]


async def heard_of(multis: list[list[Said]], chunks: Iterable[bytes]) -> list[Said]:
    """What a listener takes for new: of a stream that comes in chunks, while these MULTIs of ours
    are under way."""
    echo, heard = EchoFilter(), []

    def hear(channel: bytes, payload: bytes) -> None:
        if is_own_copy(payload):
            echo.passed(channel, payload)
        else:
            heard.append((channel.decode(), payload))

    connection = Connection(hear, echo.skip)
    for multi in multis:
        echo.expect([b"".join(map(bulk, said)) for said in multi])
    for chunk in chunks:
        connection.data_received(chunk)
    assert not connection.closed.done(), "the connection was given up"
    return heard


def cut(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """The stream in pieces, none of them empty."""
    ends = sorted({place % len(stream) for place in places} - {0}) if stream else []
    return [
        stream[start:end]
        for start, end in zip([0, *ends], [*ends, len(stream)], strict=True)
        if stream
    ]


@given(events, st.lists(st.integers(0, 100_000), max_size=12))
@example(ONE_OF_EACH, [20])
@example([*ONE_OF_EACH, *ONE_OF_EACH], [50, 400])
def test_what_others_say_is_heard_once_and_what_we_say_is_not(
    events: list[list[Said]], places: list[int]
) -> None:
    stream = b"".join(pack("message", *said) for event in events for said in event)
    ours = [event for event in events if is_own_copy(event[0][1])]

    heard = asyncio.run(heard_of(ours, cut(stream, places)))

    assert heard == [said for event in events for said in event if not is_own_copy(said[1])]


@given(st.lists(of_ours, min_size=1, max_size=4), st.lists(st.integers(0, 100_000), max_size=12))
def test_nothing_of_ours_is_read_wherever_it_is_cut(
    ours: list[list[Said]], places: list[int]
) -> None:
    echo, stream = (
        EchoFilter(),
        b"".join(pack("message", *said) for multi in ours for said in multi),
    )
    for multi in ours:
        echo.expect([b"".join(map(bulk, said)) for said in multi])

    read = [echo.skip(chunk) for chunk in cut(stream, places)]

    assert not any(read)


def test_what_we_published_and_what_never_came_back_is_not_waited_for_for_ever() -> None:
    lost, others = [(CHANNELS[0], make_copy("lost"))], [(CHANNELS[0], make_payload("tea"))]
    ours = [[(CHANNELS[0], make_copy(str(number)))] for number in range(3)]
    stream = [pack("message", *said) for said in (*ours[0], *others, *ours[1], *ours[2], *others)]

    heard = asyncio.run(heard_of([lost, *ours], stream))

    assert heard == others * 2
