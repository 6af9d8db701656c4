"""An embedder behind OpenAI's `/v1/embeddings` API. Texts are sent to its server."""

import hashlib
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.guarded_http.client import (
    Answer,
    AnswerTooLong,
    OutgoingRefused,
    Request,
    RequestFailed,
    send_blocking,
)
from memrelay.guarded_http.rules import operator_rules
from memrelay.memory.errors import EmbeddingFault, EmbeddingUnavailable, TextRejected
from memrelay.memory.search.embedding.embedder import (
    PROBE,
    Calibration,
    EmbeddingOptions,
    Fingerprint,
)
from memrelay.memory.search.embedding.unit_rows import unit_rows

TOGETHER = 64  # texts in a request
# Characters sent of a text, so that it stays below the usual 8,191 tokens.
MOST_CHARACTERS = 8000
MOST_BYTES = 32 << 20  # of an answer
RETRYABLE = {408, 409, 425, 429}
REFUSED_TEXT = {400, 413, 422}
NOT_A_NUMBER = re.compile(rb"-?\b(?:NaN|Infinity)\b")
MOST_REASON = 100  # characters of a server's reason that are reported


class _NotFinite(ValueError):
    """A vector contains NaN or infinity."""


class Endpoint:
    """A server that embeds texts. Each request opens a connection to a checked address.

    The constructor asks the server for one vector to learn the dimension. It raises like `embed`.
    """

    calibration = Calibration()
    waits = True

    def __init__(self, options: EmbeddingOptions) -> None:
        self._options, self._url = options, urlsplit(options.url.rstrip("/") + "/embeddings")
        if self._url.scheme not in ("http", "https") or not self._url.hostname or not options.name:
            raise EmbeddingFault(
                "the embedder `endpoint` needs `embedding.url`, like https://api.example.com/v1, "
                "and `embedding.name`, the server's name for the model"
            )
        # the name in the server's answers: many servers have one model, and accept any name
        self._model = ""
        dimension = self._request([PROBE]).shape[1]
        digest = hashlib.sha256((self._model or options.name).encode(errors="replace")).hexdigest()
        self.fingerprint = Fingerprint(options.name, dimension, digest)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts. Raises EmbeddingFault, EmbeddingUnavailable or
        TextRejected."""
        parts = [self._request(texts[at : at + TOGETHER]) for at in range(0, len(texts), TOGETHER)]
        if any(part.shape[1] != self.fingerprint.dimension for part in parts):
            raise EmbeddingFault(
                f"{self._url.hostname} returns vectors of another dimension than before; if the "
                "model changed, restart the worker, then run `memrelay reindex PIPELINE`"
            )
        return np.concatenate([np.empty((0, self.fingerprint.dimension), np.float32), *parts])

    def _request(self, texts: Sequence[str]) -> NDArray[np.float32]:
        body = orjson.dumps(
            {
                "model": self._options.name,
                "input": [text[:MOST_CHARACTERS] or " " for text in texts],
                "encoding_format": "float",
            }
        )
        response = self._post(body)
        status, reason = response.status, response.reason
        if status in RETRYABLE or status >= 500:
            raise EmbeddingUnavailable(
                f"{self._url.hostname} answers {status} {reason}", response.retry_after_s or 0.0
            )
        if status in REFUSED_TEXT:
            raise self._rejection(texts, f"answers {status} {reason}", "it rejects these texts")
        if status != 200:
            raise EmbeddingFault(
                f"{self._url.hostname} answers {status} {reason}: "
                "check `embedding.url`, `embedding.name` and `embedding.key`"
            )
        try:
            found = _read_json(response.body)
            rows = unit_rows(_vectors(found, len(texts)))
        except _NotFinite as error:
            raise self._rejection(
                texts, "gives no numbers", "only for some of these texts"
            ) from error
        except (ValueError, TypeError, LookupError) as error:
            raise EmbeddingFault(
                f"{self._url.hostname} does not answer like /v1/embeddings: {error!r}"[:300]
            ) from error
        self._check_model(found.get("model"))
        return rows

    def _rejection(self, texts: Sequence[str], what: str, why: str) -> EmbeddingFault:
        """Return TextRejected if the server accepts another text, else EmbeddingFault."""
        if texts == [PROBE]:
            return EmbeddingFault(
                f"{self._url.hostname} {what} to any text: check the server and `embedding.name`"
            )
        self._request([PROBE])
        return TextRejected(f"{self._url.hostname} {what}: {why}")

    def _check_model(self, model: object) -> None:
        """Raise EmbeddingFault if the server uses another model than before."""
        if not model or not isinstance(model, str):  # the server does not name it
            return
        self._model = self._model or model
        if model != self._model:
            raise EmbeddingFault(
                f"{self._url.hostname} now answers with the model {model[:MOST_REASON]!r}, not "
                f"{self._model[:MOST_REASON]!r}; if the model changed, restart the worker, then "
                "run `memrelay reindex PIPELINE`"
            )

    def _post(self, body: bytes) -> Answer:
        options = self._options
        request = Request(
            "POST", self._url.geturl(), self._headers(), body, options.timeout_s, MOST_BYTES
        )
        try:
            rules = operator_rules("embedding", options.private)
            return send_blocking(rules, "embedding", request)
        except RequestFailed as error:
            raise EmbeddingUnavailable(str(error)) from error
        except OutgoingRefused as error:
            raise EmbeddingFault(f"`embedding.url`: {error}") from error
        except AnswerTooLong as error:
            raise EmbeddingFault(f"{self._url.hostname}: {error}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        try:
            key = self._options.read_key() if self._options.read_key else ""
        except LookupError as error:
            raise EmbeddingFault(f"`embedding.key` cannot be read: {error.args[0]}") from error
        if not key.isascii() or not key.isprintable():
            raise EmbeddingFault(
                "`embedding.key` is no key: it has characters that a header cannot contain"
            )
        return headers | ({"Authorization": f"Bearer {key}"} if key else {})


def _read_json(answer: bytes) -> Any:
    """Parse JSON, reading NaN and Infinity, which Python's json module writes, as null."""
    try:
        return orjson.loads(answer)
    except ValueError:
        return orjson.loads(NOT_A_NUMBER.sub(b"null", answer))


def _vectors(answer: Any, count: int) -> NDArray[np.float32]:
    """Return the rows in the order of the texts.

    Raises ValueError, TypeError or LookupError: when the answer is malformed.
    """
    rows = {int(one["index"]): one["embedding"] for one in answer["data"]}
    if (
        sorted(rows) != list(range(count))
        or len({len(row) for row in rows.values()}) != 1
        or not rows[0]
    ):
        raise ValueError("not a vector for each text")
    if not all(isinstance(row, list) for row in rows.values()):
        raise TypeError("a vector is no array of numbers")
    flat = np.fromiter(chain.from_iterable(rows[at] for at in range(count)), np.float64)
    matrix = flat.reshape(count, -1)
    if not np.isfinite(matrix).all():
        raise _NotFinite
    # the row is scaled first, because float32 has a smaller range
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    return (matrix / np.where(largest > 0, largest, 1)).astype(np.float32)


def load(options: EmbeddingOptions) -> Endpoint:
    """Return the embedder for these options."""
    return Endpoint(options)
