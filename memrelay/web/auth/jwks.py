"""Public keys of JWT issuers: key sets (RFC 7517) from a file or an https URL.

A file is read again when it changes. A URL is read at start, every 10 minutes, and for an unknown
key id, at most once a minute. Its last good set is kept on disk for the next start.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import orjson
from jwt import PyJWK, PyJWTError

from memrelay.guarded_http.client import (
    AnswerTooLong,
    OutgoingRefused,
    Request,
    RequestFailed,
    send_blocking,
)
from memrelay.guarded_http.rules import operator_rules
from memrelay.logs import get_logger
from memrelay.pipelines.secret_references import SecretResolver

log = get_logger(__name__)

REFRESH_S = 600.0
# The shortest time between two requests because of unknown key ids.
UNKNOWN_KEY_S = 60.0
FETCH_TIMEOUT_S = 10.0
MAX_BYTES = 65_536
# The type and the curve of a key for each algorithm.
KINDS = {"RS256": ("RSA", ""), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}


class KeySetFault(Exception):
    """A key set cannot be read. The text names the place and the reason."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key of a set. `algorithm` is the only one for which it is used."""

    kid: str
    algorithm: str
    public: Any


@dataclass(frozen=True, slots=True)
class KeySet:
    """The usable keys of a set."""

    keys: tuple[VerificationKey, ...]

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """Return the key with this id. Without an id, the set must have only one key."""
        if kid is None and len(self.keys) > 1:
            return None
        matching = (key for key in self.keys if kid in (None, key.kid))
        return next((key for key in matching if key.algorithm == algorithm), None)


def parse_key_set(data: bytes, place: str) -> KeySet:
    """Return the keys for RS256, ES256 and EdDSA. An empty set is valid: it has no key.

    A malformed key is skipped with a log line that names `place`. Raises ValueError: the data is
    not a key set, or none of its keys is usable.
    """
    try:
        listed = orjson.loads(data)["keys"]
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise ValueError('it is not JSON of the form {"keys": [...]}') from error
    if not isinstance(listed, list):
        raise ValueError("`keys` is not a list")
    found = []
    for one in listed:
        try:
            key = _parse_key(one)
        except ValueError as error:
            kid = str(one.get("kid", ""))[:100] if isinstance(one, dict) else ""
            log.warning("jwks_key_skipped", place=place, kid=kid, reason=str(error))
            continue
        if key is not None:
            found.append(key)
    if listed and not found:
        raise ValueError("it has no usable public key for RS256, ES256 or EdDSA")
    return KeySet(tuple(found))


def _parse_key(given: object) -> VerificationKey | None:
    """Return a key, or None if it is for another purpose. Raises ValueError."""
    if not isinstance(given, dict):
        raise ValueError("a key is not a JSON object")
    if given.get("use", "sig") != "sig":
        return None
    curve = given.get("crv") or ""
    algorithm = next(
        (name for name, kind in KINDS.items() if kind == (given.get("kty"), curve)), ""
    )
    if not algorithm or given.get("alg", algorithm) != algorithm:
        return None
    if "d" in given:
        raise ValueError("it is a private key: publish public keys only")
    try:
        public = PyJWK(given, algorithm).key
    except (PyJWTError, ValueError, TypeError) as error:
        raise ValueError(f"a key is malformed: {error}"[:200]) from error
    return VerificationKey(str(given.get("kid", "")), algorithm, public)


class KeySource(Protocol):
    """The keys of one issuer."""

    async def start(self) -> None:
        """Start background work."""

    async def stop(self) -> None:
        """End background work."""

    async def get(self) -> KeySet:
        """Return the current set. Raises KeySetFault: none was ever read."""

    async def refresh(self) -> bool:
        """Look for new keys if allowed now. Return whether the set may differ."""


class FileKeys:
    """The key set in a file. A change takes effect within a second."""

    def __init__(self, path: str) -> None:
        self._reference = f"file:{Path(path).expanduser().absolute()}"
        self._files = SecretResolver(Path("/"), {})
        self._set: KeySet | None = None
        self._text: str | None = None
        self._fault = ""

    async def start(self) -> None:
        """Read the file, so that the log shows a fault at once."""
        with suppress(KeySetFault):
            await self.get()

    async def stop(self) -> None:
        """Do nothing."""

    async def get(self) -> KeySet:
        """Return the set. A malformed file leaves the last good one in force.

        Raises KeySetFault.
        """
        try:
            text = await self._files.resolve(self._reference)
            if text is not self._text:
                self._text = text
                self._set, self._fault = parse_key_set(text.encode(), self._reference), ""
        except (LookupError, ValueError) as error:
            self._report(str(error))
        if self._set is None:
            raise KeySetFault(f"the key set {self._reference} is not usable: {self._fault}")
        return self._set

    def _report(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            log.warning("jwks_unusable", place=self._reference, reason=fault)

    async def refresh(self) -> bool:
        """Return False: `get` has looked already."""
        return False


class UrlKeys:
    """The key set at an https URL. `folder` keeps the last good one; `clock` returns seconds."""

    def __init__(
        self,
        url: str,
        folder: Path,
        *,
        private: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._private, self._clock = url, private, clock
        self._file = folder / f"{sha256(url.encode()).hexdigest()[:24]}.json"
        self._set: KeySet | None = None
        self._fault = "it was not read yet"
        self._fetched_at = -UNKNOWN_KEY_S
        self._fetching: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the copy on disk and start to read the URL."""
        with suppress(OSError, ValueError):
            kept = await asyncio.to_thread(self._file.read_bytes)
            self._set = parse_key_set(kept, str(self._file))
        self._refreshing = asyncio.create_task(self._refresh_forever())

    async def stop(self) -> None:
        """End the background task."""
        for task in filter(None, (self._refreshing, self._fetching)):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _refresh_forever(self) -> None:
        while True:
            await self._fetch()
            await asyncio.sleep(REFRESH_S)

    async def get(self) -> KeySet:
        """Return the set. Wait only for the first one. Raises KeySetFault."""
        if self._set is None:
            await self.refresh()
        if self._set is None:
            raise KeySetFault(f"the key set {self._url} is not usable: {self._fault}")
        return self._set

    async def refresh(self) -> bool:
        """Read the URL, unless it was read in the last minute. Return whether it was read."""
        if self._fetching is None and self._clock() - self._fetched_at < UNKNOWN_KEY_S:
            return False
        await self._fetch()
        return True

    async def _fetch(self) -> None:
        """Read the URL. Concurrent callers share one request."""
        if self._fetching is None:
            self._fetched_at = self._clock()
            self._fetching = asyncio.create_task(self._fetch_now())
        await asyncio.shield(self._fetching)

    async def _fetch_now(self) -> None:
        try:
            data = await asyncio.to_thread(fetch_key_set, self._url, private=self._private)
            self._set, self._fault = parse_key_set(data, self._url), ""
            await asyncio.to_thread(_keep, self._file, data)
        except (KeySetFault, ValueError) as error:
            self._fault = str(error)
            log.warning("jwks_unusable", place=self._url, reason=self._fault)
        except OSError as error:
            log.warning("jwks_not_kept", file=str(self._file), reason=str(error))
        finally:
            self._fetching = None


def fetch_key_set(url: str, *, private: bool, timeout_s: float = FETCH_TIMEOUT_S) -> bytes:
    """Return the body at an https URL. Redirects are not followed. Blocks. Raises KeySetFault.

    `timeout_s` is the time for everything, from resolving the name to the last byte.
    """
    request = Request(
        "GET", url, {"Accept": "application/json"}, timeout_s=timeout_s, most_bytes=MAX_BYTES
    )
    try:
        answer = send_blocking(operator_rules("jwks", private), "jwks", request)
    except (OutgoingRefused, RequestFailed) as error:
        raise KeySetFault(str(error)) from error
    except AnswerTooLong as error:
        raise KeySetFault(f"the answer has more than {MAX_BYTES >> 10} KiB") from error
    if answer.status != 200:
        raise KeySetFault(f"the server answers {answer.status}")
    return answer.body


def _keep(file: Path, data: bytes) -> None:
    """Replace the copy on disk as a whole. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_bytes(data)
    fresh.replace(file)
