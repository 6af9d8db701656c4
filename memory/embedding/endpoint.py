"""Any server that speaks OpenAI's `/v1/embeddings`: texts leave the machine, if the server is
another one."""

import hashlib
import re
import time
from collections.abc import Sequence
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from memrelay.memory.embedding.embedder import (
    PROBE,
    Calibration,
    EmbeddingOptions,
    Fingerprint,
)
from memrelay.memory.embedding.outgoing import connection_to
from memrelay.memory.embedding.unit_rows import unit_rows
from memrelay.memory.errors import EmbeddingFault, EmbeddingLater, TextRefused

TOGETHER = 64  # texts in a request
# of a text, so that it has no more tokens than the usual 8191; what lies beyond does not count
MOST_CHARACTERS = 8000
MOST_BYTES = 32 << 20  # of an answer
LATER = {408, 409, 425, 429}
REFUSED_TEXT = {400, 413, 422}
NO_NUMBER = re.compile(rb"-?\b(?:NaN|Infinity)\b")
MOST_REASON = 100  # characters of a server's reason that are told


class _NotFinite(ValueError):
    """A vector with what is no number."""


class _Answer(NamedTuple):
    status: int
    reason: str
    body: bytes
    # for which it wants to be left alone (RFC 9110, Retry-After); 0 where it does not say
    after_s: float


class Endpoint:
    """A request is a connection of its own, to an address that was looked at."""

    calibration = Calibration()
    waits = True

    def __init__(self, options: EmbeddingOptions) -> None:
        """Asks the server for one vector, to learn their dimension. Raises as `embed` does."""
        self._options, self._url = options, urlsplit(options.url.rstrip("/") + "/embeddings")
        if self._url.scheme not in ("http", "https") or not self._url.hostname or not options.name:
            raise EmbeddingFault(
                "the embedder `endpoint` needs `embedding.url`, like https://api.example.com/v1, and "
                "`embedding.name`, by which the server knows the model"
            )
        self._model = (
            ""  # as the server calls it in its answers: many have one, whatever they are asked for
        )
        dimension = self._ask([PROBE]).shape[1]
        digest = hashlib.sha256((self._model or options.name).encode(errors="replace")).hexdigest()
        self.fingerprint = Fingerprint(options.name, dimension, digest)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """As Embedder has it."""
        parts = [self._ask(texts[at : at + TOGETHER]) for at in range(0, len(texts), TOGETHER)]
        if any(part.shape[1] != self.fingerprint.dimension for part in parts):
            raise EmbeddingFault(
                f"{self._url.hostname} gives vectors of another dimension than before; if the model was "
                "changed, start the worker anew, then `memrelay reindex PIPELINE`"
            )
        return np.concatenate([np.empty((0, self.fingerprint.dimension), np.float32), *parts])

    def _ask(self, texts: Sequence[str]) -> NDArray[np.float32]:
        body = orjson.dumps(
            {
                "model": self._options.name,
                "input": [text[:MOST_CHARACTERS] or " " for text in texts],
                "encoding_format": "float",
            }
        )
        status, reason, answer, after_s = self._post(body)
        if status in LATER or status >= 500:
            raise EmbeddingLater(f"{self._url.hostname} answers {status} {reason}", after_s)
        if status in REFUSED_TEXT:
            raise self._refused(texts, f"answers {status} {reason}", "it does not take these texts")
        if status != 200:
            raise EmbeddingFault(
                f"{self._url.hostname} answers {status} {reason}: look at `embedding.url`, `name` and `key`"
            )
        try:
            found = _read_json(answer)
            rows = unit_rows(_vectors(found, len(texts)))
        except _NotFinite as error:
            raise self._refused(texts, "gives no numbers", "not for some of these texts") from error
        except (ValueError, TypeError, LookupError) as error:
            raise EmbeddingFault(
                f"{self._url.hostname} does not answer as /v1/embeddings does: {error!r}"[:300]
            ) from error
        self._look_at(found.get("model"))
        return rows

    def _refused(self, texts: Sequence[str], what: str, why: str) -> EmbeddingFault:
        """What is to be raised where it does that. It is for these texts if the model takes
        another: else that is raised."""
        if texts == [PROBE]:
            return EmbeddingFault(
                f"{self._url.hostname} {what} to any text: look at the server, and at `embedding.name`"
            )
        self._ask([PROBE])
        return TextRefused(f"{self._url.hostname} {what}: {why}")

    def _look_at(self, model: object) -> None:
        """Raises EmbeddingFault where the server answers by another model than before."""
        if not model or not isinstance(model, str):  # it does not say
            return
        self._model = self._model or model
        if model != self._model:
            raise EmbeddingFault(
                f"{self._url.hostname} answers by the model {model[:MOST_REASON]!r}, and did by "
                f"{self._model[:MOST_REASON]!r} before; if it was changed, start the worker anew, then "
                "`memrelay reindex PIPELINE`"
            )

    def _post(self, body: bytes) -> _Answer:
        options = self._options
        try:
            with closing(
                connection_to(self._url, private=options.private, timeout_s=options.timeout_s)
            ) as connection:
                connection.request("POST", self._url.path, body, self._headers())
                return _read(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise EmbeddingLater(
                f"{self._url.hostname} does not answer: {type(error).__name__}"
            ) from error
        except ValueError as error:
            raise EmbeddingFault(f"`embedding.url` is no address: {error}"[:300]) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        try:
            key = self._options.read_key() if self._options.read_key else ""
        except LookupError as error:
            raise EmbeddingFault(f"the key of the embedder: {error.args[0]}") from error
        if not key.isascii() or not key.isprintable():
            raise EmbeddingFault(
                "the key of the embedder is no key: it has characters that no header takes"
            )
        return headers | ({"Authorization": f"Bearer {key}"} if key else {})


def _read(response: HTTPResponse) -> _Answer:
    answer = response.read(MOST_BYTES + 1)
    if len(answer) > MOST_BYTES:
        raise EmbeddingFault(f"the answer of the embedder has more than {MOST_BYTES} bytes")
    reason = "".join(
        filter(str.isprintable, response.reason[:MOST_REASON])
    )  # it is told in logs and on terminals
    return _Answer(response.status, reason, answer, _seconds(response.getheader("Retry-After", "")))


def _seconds(told: str) -> float:
    """Of a number of them, or of a date; 0 for what is neither."""
    if told.isdecimal():
        return float(told[:9])
    try:
        return max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0


def _read_json(answer: bytes) -> Any:
    """Python's own json writes NaN and Infinity, which are no JSON: then as null. Raises
    ValueError."""
    try:
        return orjson.loads(answer)
    except ValueError:
        return orjson.loads(NO_NUMBER.sub(b"null", answer))


def _vectors(answer: Any, count: int) -> NDArray[np.float32]:
    """The rows, in the order of the texts. Raises ValueError, TypeError or LookupError where they
    are none."""
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
    largest = np.abs(matrix).max(
        axis=1, keepdims=True
    )  # by which they are divided, as float32 has less room
    return (matrix / np.where(largest > 0, largest, 1)).astype(np.float32)


def load(options: EmbeddingOptions) -> Endpoint:
    """The embedder."""
    return Endpoint(options)
