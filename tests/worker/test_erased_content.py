"""Messages that quote erased content are recognized."""

import msgspec
import orjson
import pytest

from memrelay.worker.background.erasure import FEW, ErasedContent

GUID = "01a200a0-9980-7000-8018-9f7019b48c30"
LONG, SHORT = 'The meeting is "at 3pm"\nin Oslo', "tea"
ERASED = ErasedContent(
    [
        ("guid", GUID),
        ("guid", "odd guid"),
        ("content", LONG),
        ("content", SHORT),
        ("content", ""),
        ("text", "Ada L"),
    ]
)


def envelope(text: str) -> bytes:
    return orjson.dumps({"from": "User", "args": [{"text": text, "username": "Bob"}]})


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"/write {LONG}",
        f"1. {LONG} and more",
        orjson.dumps({"items": [{"content": LONG}]}).decode(),
        SHORT,
        " tea\n",
        "/write tea",
        f"deleted {GUID}",
        f'{{"guid":"{GUID}"}}',
        "of odd guid",
        "said Ada Lovelace",
        orjson.dumps([orjson.dumps({"a": LONG}).decode()]).decode(),
    ],
)
def test_messages_that_quote_erased_content_are_recognized(text: str) -> None:
    assert ERASED.in_json(envelope(text))
    assert ERASED.in_msgpack(msgspec.msgpack.encode(("1-0", 0, [0], [("chat", envelope(text))])))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "teatime",
        "a cup of tea",
        "/write green tea",
        LONG[:-1],
        GUID[:-1],
        "ada l",
        "{" * 5000,
        "[" * 50_000,
    ],
)
def test_messages_without_erased_content_are_not_recognized(text: str) -> None:
    assert not ERASED.in_json(envelope(text))
    assert not ERASED.in_msgpack(b"\xc1" + text.encode()) and not ErasedContent([]).in_json(
        envelope(LONG)
    )


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"not JSON", LONG[:20].encode()])
def test_data_that_is_not_json_is_searched_as_text(data: bytes) -> None:
    assert not ERASED.in_json(data)
    assert ERASED.in_json(data + b" " + LONG.encode())


def test_many_contents_are_found_like_few() -> None:
    others = [("content", f"another text, number {number}") for number in range(2 * FEW)]
    wanted = [("content", "the kettle is warm"), ("content", "the kettle is warm today")]
    few, many = ErasedContent(wanted), ErasedContent([*others, *wanted])

    for text, is_quote in {
        "/write the kettle is warm": True,
        "so the kettle is warm today, they say": True,
        "the kettle is cold": False,
        "the kettle": False,
    }.items():
        assert few.in_json(text.encode()) == many.in_json(text.encode()) == is_quote
