"""Read memories and sessions over the REST API of Redis agent-memory-server."""

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from json import loads
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import orjson

from memrelay.guarded_http.client import (
    AnswerTooLong,
    OutgoingRefused,
    Request,
    RequestFailed,
    send_blocking,
)
from memrelay.guarded_http.rules import operator_rules
from memrelay.memory.transfer.importers.source import Fault, RefusedFile

SEARCH = "/v1/long-term-memory/search"
SESSIONS = "/v1/working-memory/"
# Memories or sessions in an answer. The server allows at most 100.
PAGE = 100
TIMEOUT_S = 60.0
MAX_ANSWER = 64 << 20
EXAMPLE = "http://localhost:8000"


def read_api(url: str, *, private: bool) -> Callable[[], Iterator[object]]:
    """Return a function that yields the answers of the server: pages of a search, then sessions.

    A private address other than loopback needs `private`. Raises RefusedFile, also while answers
    are read.
    """
    try:
        address = urlsplit(url.rstrip("/"))
        is_valid = (
            address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        )
    except ValueError:
        is_valid = False
    if not is_valid or address.username or address.query:
        raise RefusedFile(f"--url is not the address of a server, such as {EXAMPLE}")
    server = _Server(address, private or _is_loopback(address.hostname or ""))

    def answers() -> Iterator[object]:
        yield from _search(server)
        yield from _sessions(server)

    return answers


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Server:
    """Sends requests to one server. Each opens a connection to a checked address."""

    def __init__(self, address: SplitResult, private: bool) -> None:
        self._address, self._private = address, private

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return (status, decoded JSON). Raises RefusedFile."""
        request = Request(
            method,
            self._address.geturl() + path,
            {"Content-Type": "application/json"},
            None if body is None else orjson.dumps(body),
            TIMEOUT_S,
            MAX_ANSWER,
        )
        try:
            answer = send_blocking(operator_rules("import", self._private), "import", request)
        except AnswerTooLong as error:
            raise RefusedFile(f"the answer to {path} is larger than 64 MiB") from error
        except (OutgoingRefused, RequestFailed) as error:
            raise RefusedFile(str(error)) from error
        return answer.status, _decode(answer.body)

    def get(self, method: str, path: str, body: object = None) -> Any:
        """Return the decoded JSON of a successful answer. Raises RefusedFile."""
        status, answer = self.ask(method, path, body)
        if status != 200:
            raise RefusedFile(
                f"{self._address.netloc} answers {status} to {path}; check --url. If the server "
                "requires a token, save its answers to a file and import that"
            )
        return answer


def _decode(answer: bytes) -> Any:
    try:
        return loads(answer)
    except (ValueError, RecursionError):
        return None


def _search(server: _Server) -> Iterator[object]:
    """Yield the pages of a search without a text, which finds everything."""
    offset: int | None = 0
    last: object = None
    while offset is not None:
        # Without a boost, the search does not change when a memory was last used.
        query = {"limit": PAGE, "offset": offset, "recency_boost": False, "deduplicate": False}
        answer = server.get("POST", SEARCH, query)
        memories = answer.get("memories") if isinstance(answer, dict) else None
        if not isinstance(memories, list):
            raise RefusedFile(f"the answer to {SEARCH} has no list `memories`; check --url")
        if memories and memories == last:
            raise RefusedFile("the server repeats a page of its memories; save them to a file")
        yield answer
        last = memories
        following = answer.get("next_offset")
        is_full = len(memories) >= PAGE
        following = following if isinstance(following, int) else offset + PAGE if is_full else None
        offset = following if following is not None and following > offset and memories else None


def _sessions(server: _Server) -> Iterator[object]:
    """Yield the working memory of each session."""
    offset = 0
    while True:
        answer = server.get("GET", f"{SESSIONS}?limit={PAGE}&offset={offset}")
        names = answer.get("sessions") if isinstance(answer, dict) else None
        if not isinstance(names, list):
            raise RefusedFile(f"the answer to {SESSIONS} has no list `sessions`; check --url")
        for name in names:
            status, session = server.ask("GET", SESSIONS + quote(str(name), safe=""))
            where = f"session {str(name)[:80]}"
            yield session if status == 200 else Fault(where, f"the server answers {status}")
        if len(names) < PAGE:
            return
        offset += len(names)
