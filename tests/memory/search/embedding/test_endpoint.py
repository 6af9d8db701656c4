"""The embedder for an OpenAI-compatible endpoint: batches, temporary and permanent errors, secrets
and addresses."""

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from memrelay.memory.errors import EmbeddingFault, EmbeddingUnavailable, TextRejected
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.memory.search.embedding.endpoint import MOST_CHARACTERS, TOGETHER, Endpoint
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def endpoint(
    url: str, *, private: bool = True, key: str = KEY, timeout_s: float = 5, name: str = "letters"
) -> Endpoint:
    options = EmbeddingOptions(
        "endpoint", 1, url, name, lambda: key, private=private, timeout_s=timeout_s
    )
    return Endpoint(options)


def test_texts_are_sent_in_batches_with_the_key(server: EmbeddingServer) -> None:
    embedder = endpoint(server.url)

    matrix = embedder.embed(["abc"] * (2 * TOGETHER + 1))

    assert [len(texts) for texts in server.asked] == [1, TOGETHER, TOGETHER, 1]
    assert matrix.shape == (2 * TOGETHER + 1, 26)


def test_rows_follow_the_order_of_the_texts_not_of_the_answer(
    server: EmbeddingServer,
) -> None:
    rows = endpoint(server.url).embed(["aaa", "bbb", "ccc"])

    assert rows[:, :3].round().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_long_text_is_truncated_and_an_empty_text_becomes_a_space(
    server: EmbeddingServer,
) -> None:
    endpoint(server.url).embed(["a" * 100_000, ""])

    assert server.asked[-1] == ["a" * MOST_CHARACTERS, " "]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_temporary_server_error_can_be_retried(server: EmbeddingServer, status: int) -> None:
    embedder = endpoint(server.url)
    server.instead = [(status, b"")]

    with pytest.raises(EmbeddingUnavailable, match=str(status)):
        embedder.embed(["tea"])

    assert embedder.embed(["tea"]).shape == (1, 26)


@pytest.mark.parametrize(
    ("retry_after", "least_s", "most_s"),
    [
        ("", 0, 0),
        ("7", 7, 7),
        ("0", 0, 0),
        ("soon", 0, 0),
        ("-3", 0, 0),
        ("9" * 400, 999_999_999, 999_999_999),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 2100 07:28:00 GMT", 1e6, 1e10),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0, 0),
    ],
)
def test_the_retry_after_header_sets_the_delay(
    server: EmbeddingServer, retry_after: str, least_s: float, most_s: float
) -> None:
    embedder = endpoint(server.url)
    server.instead, server.retry_after = [(429, b"")], retry_after

    with pytest.raises(EmbeddingUnavailable) as caught:
        embedder.embed(["tea"])

    assert least_s <= caught.value.after_s <= most_s


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b"", EmbeddingFault),
        (404, b"", EmbeddingFault),
        (302, b"", EmbeddingFault),
        (400, b"", TextRejected),
        (413, b"", TextRejected),
        (200, b"not json", EmbeddingFault),
        (200, b"[]", EmbeddingFault),
        (200, b'{"data": []}', EmbeddingFault),
        (200, b'{"data": [{"index": 0, "embedding": []}]}', EmbeddingFault),
        (200, b'{"data": [{"index": 0, "embedding": ["x"]}]}', EmbeddingFault),
        (200, b'{"data": [{"index": 0, "embedding": [1e300]}]}', EmbeddingFault),
        (200, b'{"data": [{"index": 1, "embedding": [1.0]}]}', EmbeddingFault),
        # Looks like base64.
        (
            200,
            b'{"data": [{"index": 0, "embedding": "11111111111111111111111111"}]}',
            EmbeddingFault,
        ),
        # The server embeds every other text.
        (200, b'{"data": [{"index": 0, "embedding": [null]}]}', TextRejected),
        # Python's json writes NaN like this.
        (200, b'{"data": [{"index": 0, "embedding": [NaN]}]}', TextRejected),
        (200, b'{"data": [{"index": 0, "embedding": [-Infinity]}]}', TextRejected),
        # The dimension has changed.
        (200, b'{"data": [{"index": 0, "embedding": [1.0]}]}', EmbeddingFault),
    ],
)
def test_a_permanent_error_is_not_reported_as_temporary(
    server: EmbeddingServer, status: int, body: bytes, kind: type[EmbeddingFault]
) -> None:
    embedder = endpoint(server.url)
    server.instead = [(status, body)]

    with pytest.raises(EmbeddingFault) as raised:
        embedder.embed(["tea"])

    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (200, b'{"data": [{"index": 0, "embedding": [null]}]}', "gives no numbers to any text"),
        # for example, if the server has loaded no model
        (400, b"", "answers 400 Bad Request to any text"),
        (422, b"", "answers 422 .* to any text"),
    ],
)
def test_a_server_that_rejects_every_text_is_faulty(
    server: EmbeddingServer, status: int, body: bytes, message: str
) -> None:
    embedder = endpoint(server.url)
    server.instead = [(status, body)] * 2

    with pytest.raises(EmbeddingFault, match=message) as raised:
        embedder.embed(["tea"])

    assert type(raised.value) is EmbeddingFault


def test_vectors_are_rejected_after_the_model_changes_on_the_server(
    server: EmbeddingServer,
) -> None:
    embedder = endpoint(server.url)
    server.model = "others"

    with pytest.raises(
        EmbeddingFault,
        match=r"with the model 'others', not 'letters'.*memrelay reindex",
    ):
        embedder.embed(["tea"])
    server.model = "letters"

    assert embedder.embed(["tea"]).any()


@pytest.mark.parametrize(
    ("before", "now"), [("letters-v1", "letters-v2"), ("letters", "letters-v2"), ("", "letters-v2")]
)
def test_another_model_name_from_the_server_changes_the_fingerprint(
    server: EmbeddingServer, before: str, now: str
) -> None:
    server.model = before
    old = endpoint(server.url).fingerprint
    server.model = now
    fingerprint = endpoint(server.url).fingerprint

    assert (fingerprint.name, fingerprint.dimension) == (old.name, old.dimension)
    assert fingerprint != old


@pytest.mark.parametrize("model", [None, "", 7, ["letters"]])
def test_an_answer_without_a_model_name_is_accepted(server: EmbeddingServer, model: Any) -> None:
    by_name = endpoint(server.url).fingerprint
    server.model = model
    embedder = endpoint(server.url)

    assert embedder.fingerprint == by_name
    assert embedder.embed(["tea"]).any()


@pytest.mark.parametrize("size", [1e-300, 1e-42, 1e38, 1e300])
def test_vectors_of_any_length_are_normalized(server: EmbeddingServer, size: float) -> None:
    embedder = endpoint(server.url)
    server.instead = [
        (200, orjson.dumps({"data": [{"index": 0, "embedding": [3 * size, 4 * size] + [0] * 24}]}))
    ]

    assert embedder.embed(["tea"])[0, :3] == pytest.approx([0.6, 0.8, 0])


def test_one_sanitized_line_of_the_server_error_is_reported(server: EmbeddingServer) -> None:
    embedder = endpoint(server.url)
    server.reason = "\x1b[31mno " + "o" * 5_000

    with pytest.raises(EmbeddingUnavailable) as raised:
        embedder.embed(["tea"])

    assert "503 [31mno ooo" in str(raised.value)
    assert len(str(raised.value)) < 200


def test_a_wrong_key_is_reported_without_the_key(server: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingFault) as raised:
        endpoint(server.url, key="sk-wrong-secret")

    assert "401" in str(raised.value)
    assert "sk-wrong-secret" not in repr(raised.value)


@pytest.mark.parametrize("key", ["a\r\nX-Evil: 1", "schlüssel"])
def test_a_key_that_is_invalid_in_a_header_is_rejected_without_showing_it(
    server: EmbeddingServer, key: str
) -> None:
    with pytest.raises(EmbeddingFault, match="is no key") as raised:
        endpoint(server.url, key=key)

    assert key not in str(raised.value)


def test_a_missing_key_is_reported_by_its_reference() -> None:
    def missing() -> str:
        raise LookupError("env:THE_KEY is not set")

    with (
        pytest.raises(EmbeddingFault, match="env:THE_KEY is not set"),
        embedding_server() as server,
    ):
        Endpoint(
            EmbeddingOptions(
                "endpoint", url=server.url, name="letters", read_key=missing, private=True
            )
        )


def test_the_options_do_not_show_the_key() -> None:
    assert "read_key" not in repr(EmbeddingOptions("endpoint", read_key=lambda: KEY))


def test_a_private_address_is_rejected_before_any_request(
    server: EmbeddingServer,
) -> None:
    with pytest.raises(
        EmbeddingFault, match=r"127\.0\.0\.1, which is not public: set `embedding\.private`"
    ):
        endpoint(server.url, private=False)

    assert server.asked == []


def test_an_unreachable_server_is_a_temporary_error(server: EmbeddingServer) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(EmbeddingUnavailable, match="cannot be reached"):
            endpoint(f"http://127.0.0.1:{closed.getsockname()[1]}/v1")


def test_a_request_to_a_hanging_server_times_out(server: EmbeddingServer) -> None:
    server.delay_s = 1.0

    with pytest.raises(EmbeddingUnavailable, match="does not answer"):
        endpoint(server.url, timeout_s=0.2)


def test_an_answer_sent_byte_by_byte_times_out(server: EmbeddingServer) -> None:
    embedder = endpoint(server.url, timeout_s=0.5)
    server.pause_s = 0.1  # per byte of an answer of thousands of bytes
    started_s = time.monotonic()

    with pytest.raises(EmbeddingUnavailable, match="does not answer: TimeoutError"):
        embedder.embed(["tea"] * 10)

    assert time.monotonic() - started_s < 30


def test_a_tls_handshake_without_an_answer_times_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        started_s = time.monotonic()

        with pytest.raises(EmbeddingUnavailable, match="does not answer: TimeoutError"):
            endpoint(f"https://127.0.0.1:{silent.getsockname()[1]}/v1", timeout_s=0.5)

    assert time.monotonic() - started_s < 30


def test_a_slow_name_resolution_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()

    def resolve(*_: object, **__: object) -> None:
        never.wait(200)
        raise OSError("no answer")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    started_s = time.monotonic()

    with pytest.raises(
        EmbeddingUnavailable,
        match=r"slow\.example cannot be resolved: its name server does not answer",
    ):
        endpoint("https://slow.example/v1", timeout_s=0.3)

    never.set()
    assert time.monotonic() - started_s < 30


def test_https_to_a_server_without_tls_fails(server: EmbeddingServer) -> None:
    with pytest.raises(EmbeddingUnavailable, match="no secure connection"):
        endpoint(urlsplit(server.url)._replace(scheme="https").geturl(), timeout_s=5)


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/v1", "http://127.0.0.1:x/v1"])
def test_an_invalid_url_is_a_permanent_error(url: str) -> None:
    with pytest.raises(EmbeddingFault, match=r"`embedding\.url`: the URL is malformed"):
        endpoint(url)


@pytest.mark.parametrize(
    ("url", "name"), [("", "letters"), ("ftp://x/v1", "letters"), ("http://x/v1", "")]
)
def test_a_missing_url_or_name_is_reported_with_its_setting(url: str, name: str) -> None:
    with pytest.raises(EmbeddingFault, match=r"needs `embedding\.url`"):
        endpoint(url, name=name)
