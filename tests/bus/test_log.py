"""Reading a swarm's log by cursor, whatever else is in it."""

import pytest

from memrelay.bus.embedded.launcher import EmbeddedServer
from memrelay.bus.streams.log import (
    MOST_BYTES,
    cursor_of,
    goes_on,
    parse_log_entry,
    read_log,
    read_log_back,
)
from tests.support.client import Client, swarm_of
from tests.support.lines import on_a_line


def fill(server: EmbeddedServer, uid: str, *kinds: str) -> list[str]:
    """Adds an entry a kind, `ours` or `foreign`; the cursors."""
    fields = {"ours": {"mid": "m", "data": "{}"}, "foreign": {"note": "x"}}
    with Client(server.socket_path) as client:
        return [client.redis.xadd(swarm_of(uid, "chat"), fields[kind]).decode() for kind in kinds]


def cursors(
    server: EmbeddedServer, uid: str, limit: int, *, after: str = "", before: str | None = None
) -> list[str]:
    """The cursors of a page; backwards where there is a `before`."""
    if before is not None:
        said = on_a_line(
            server, lambda line: read_log_back(line, uid, "chat", before=before, limit=limit)
        )
    else:
        said = on_a_line(server, lambda line: read_log(line, uid, "chat", after=after, limit=limit))
    return [one.cursor for one in said]


def test_a_log_that_is_not_there_is_empty(server: EmbeddedServer) -> None:
    assert cursors(server, "nobody", 10) == []
    assert cursors(server, "nobody", 10, before="") == []


def test_pages_forwards_make_up_the_whole(server: EmbeddedServer) -> None:
    there = fill(server, "forwards", *["ours"] * 7)

    first = cursors(server, "forwards", 3)

    assert first == there[:3]
    assert cursors(server, "forwards", 10, after=first[-1]) == there[3:]
    assert cursors(server, "forwards", 10, after=there[-1]) == []


def test_pages_backwards_make_up_the_whole(server: EmbeddedServer) -> None:
    there = fill(server, "backwards", *["ours"] * 7)

    first = cursors(server, "backwards", 3, before="")

    assert first == there[:3:-1]
    assert cursors(server, "backwards", 10, before=first[-1]) == there[3::-1]
    assert cursors(server, "backwards", 10, before=there[0]) == []


@pytest.mark.parametrize("limit", range(1, 8))
def test_what_is_none_of_ours_is_left_out_and_shortens_no_page(
    server: EmbeddedServer, limit: int
) -> None:
    uid = f"mixed{limit}"
    mixed = [
        "foreign",
        "ours",
        "foreign",
        "foreign",
        "foreign",
        "ours",
        "ours",
        "foreign",
        "ours",
        "foreign",
    ]
    ours = [
        cursor
        for cursor, kind in zip(fill(server, uid, *mixed), mixed, strict=True)
        if kind == "ours"
    ]

    assert cursors(server, uid, limit) == ours[:limit]
    assert cursors(server, uid, limit, before="") == ours[::-1][:limit]


def test_a_page_of_long_messages_ends_early_and_the_next_one_goes_on(
    server: EmbeddedServer,
) -> None:
    long = {"mid": "m", "data": '{"text":"%s"}' % ("x" * (MOST_BYTES // 3))}
    with Client(server.socket_path) as client:
        there = [client.redis.xadd(swarm_of("long", "chat"), long).decode() for _ in range(5)]

    first = on_a_line(server, lambda line: read_log(line, "long", "chat", limit=1000))
    rest = on_a_line(
        server, lambda line: read_log(line, "long", "chat", after=first[-1].cursor, limit=1000)
    )

    assert [one.cursor for one in first] == there[:3] and goes_on(first, 1000)
    assert [one.cursor for one in rest] == there[3:] and not goes_on(rest, 1000)
    assert cursors(server, "long", 1000, before="") == there[:1:-1]


@pytest.mark.parametrize("value", ["1e999", "-1e999", "9" * 400, "1"])
def test_what_no_one_can_count_with_is_told_as_it_came(value: str) -> None:
    data = b'{"from":"a","args":[{"text":"tea","more":%s}]}' % value.encode()

    (said,) = parse_log_entry([(b"1-0", [b"mid", b"m", b"data", data])])

    assert said.data == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1e999",
        b"[1e999]",
        b'{"a":1e999',
        b'{"a":1e999,"b":"\xff"}',
        b'{"a":NaN}',
        b"{" * 5000,
    ],
)
def test_what_is_no_json_is_left_out(data: bytes) -> None:
    assert parse_log_entry([(b"1-0", [b"mid", b"m", b"data", data])]) == []


def test_only_foreign_entries_are_an_empty_log(server: EmbeddedServer) -> None:
    fill(server, "foreign", *["foreign"] * 20)

    assert cursors(server, "foreign", 3) == cursors(server, "foreign", 3, before="") == []


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [b"mid", b"a"],
        [b"data", b"{}"],
        [b"mid", b"", b"data", b"{}"],
        [b"mid", b'a"', b"data", b"{}"],
        [b"mid", b"a\\", b"data", b"{}"],
        [b"mid", b"\xff", b"data", b"{}"],
        [b"mid", b"a" * 257, b"data", b"{}"],
        [b"mid", b"a", b"data", b""],
        [b"mid", b"a", b"data", b"[]"],
        [b"mid", b"a", b"data", b'{"a":'],
        [b"mid", b"a", b"data", b'{"a":"\xff"}'],
        [b"mid", b"a", b"data", b"{} {}"],
    ],
)
def test_an_entry_that_would_break_a_listeners_json_is_left_out(fields: list[bytes]) -> None:
    ours = (b"2-0", [b"more", b"x", b"data", b"{}", b"mid", b"1-0.0~00000000"])

    (said,) = parse_log_entry([(b"1-0", fields), ours])

    assert (said.cursor, said.mid, said.data, said.place) == (
        "2-0",
        "1-0.0~00000000",
        b"{}",
        (2, 0),
    )


def test_places_are_in_the_order_of_numbers() -> None:
    assert cursor_of("9-10") < cursor_of("10-9") < cursor_of("10-10") < cursor_of(f"{2**63 - 1}-0")


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "5",
        "-",
        "5-",
        "-5",
        "5-5-5",
        " 5-5",
        "5-5\n",
        "+",
        "\u0665-0",
        "1" * 21 + "-0",
        f"{2**63}-0",
        f"0-{2**63}",
        "5-0x1",
    ],
)
def test_what_is_no_cursor_is_told(cursor: str) -> None:
    with pytest.raises(ValueError, match="a cursor has the form 1780000000000-0"):
        cursor_of(cursor)
