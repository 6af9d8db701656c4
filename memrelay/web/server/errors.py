"""Error responses: problem JSON (RFC 9457) for every failure, from one middleware."""

import logging
import os
import re
from collections.abc import Iterable
from http import HTTPStatus
from math import ceil
from typing import Any, ClassVar

import orjson
from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler
from multidict import istr

from memrelay.bus.errors import BusBusy, BusError, BusRefused, NoOwner
from memrelay.logs import get_logger
from memrelay.memory.errors import StoreBroken, StoreBusy
from memrelay.memory.stopped_writes import describe_stopped
from memrelay.web.server.options import OPTIONS
from memrelay.web.server.path_hints import find_path_hint

log = get_logger(__name__)

REQUEST_ID_HEADER = istr("X-Request-Id")
VALID_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}")
_REQUEST_ID = web.RequestKey("request_id", str)
RETRY_AFTER_S = 1
PROBLEM_TYPE = "application/problem+json"
_DETAILS = {
    404: "no such path; docs/http.md lists all paths",
    405: "the Allow header lists the methods of this path",
}


class Problem(Exception):
    """An error with an HTTP status. `members` are extra fields of the response body.

    `detail` states the problem and the fix.
    """

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Internal server error"

    def __init__(self, detail: str, **members: Any) -> None:
        super().__init__(detail)
        # It may quote a header that is no UTF-8, which JSON cannot hold.
        self.detail = detail.encode(errors="backslashreplace").decode()
        self.members = members

    def as_response(self) -> web.Response:
        """Build the response."""
        return problem_response(self.status, self.title, self.detail, self.members)


class RetryLater(Problem):
    """An error whose response carries Retry-After."""

    retry_after_s: float = RETRY_AFTER_S

    def as_response(self) -> web.Response:
        response = super().as_response()
        response.headers[hdrs.RETRY_AFTER] = str(ceil(self.retry_after_s))
        return response


class NotYet(RetryLater):
    """The answer needs the state of a past time, which is being made."""

    status, title = 202, "Not yet"
    retry_after_s = 2


class WriteStopped(Problem):
    """A policy of the store holds the write for review, or drops it. The response has the `output`
    of the call in every API, and no error.
    """

    status, title = 202, "Not stored"

    def __init__(self, output: dict[str, str]) -> None:
        super().__init__(describe_stopped(output))
        self.output = output

    def as_response(self) -> web.Response:
        return web.Response(
            status=self.status, body=orjson.dumps(self.output), content_type="application/json"
        )


class BadRequest(Problem):
    """The request is malformed."""

    status, title = 400, "Invalid request"


class Unauthorized(Problem):
    """The key, token, or signature is missing or invalid."""

    status, title = 401, "Unauthorized"

    def as_response(self) -> web.Response:
        response = super().as_response()
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
        return response


class ForbiddenOrigin(Problem):
    """A web page of another origin sent the request."""

    status, title = 403, "Forbidden origin"


class NotAllowed(Problem):
    """The key is valid but lacks the scope or the pipeline."""

    status, title = 403, "Not allowed"


class InsufficientScope(NotAllowed):
    """The access token of OAuth lacks scopes that its client may ask the user for.

    `scopes` are those that the client should ask for: the granted ones and the missing ones.
    """

    def __init__(self, scopes: Iterable[str]) -> None:
        text = " ".join(sorted(scopes))
        super().__init__(
            f"the call needs a scope that you have not granted; connect again with: {text}",
            error="insufficient_scope",
        )
        self._scopes = text

    def as_response(self) -> web.Response:
        """Build the response, whose header lets a client start the authorization again."""
        response = super().as_response()
        response.headers[hdrs.WWW_AUTHENTICATE] = (
            f'Bearer error="insufficient_scope", scope="{self._scopes}"'
        )
        return response


class NotFound(Problem):
    """The requested thing does not exist, or the caller may not know that it does."""

    status, title = 404, "Not found"


class RequestTimeout(Problem):
    """The request did not arrive completely in time. The response closes the connection."""

    status, title = 408, "Request timeout"

    def as_response(self) -> web.Response:
        response = super().as_response()
        response.force_close()
        return response


class Conflict(Problem):
    """The thing already exists, or the request is ambiguous."""

    status, title = 409, "Conflict"


class Gone(Problem):
    """The state of a past time is no longer known."""

    status, title = 410, "Gone"


class PreconditionFailed(Problem):
    """Another version is active. `active` is the hash of its bundle, or null."""

    status, title = 412, "Precondition failed"


class TooLarge(Problem):
    """The message exceeds the size limit."""

    status, title = 413, "Message too large"


class UnsupportedMediaType(Problem):
    """The content type or content encoding is not accepted."""

    status, title = 415, "Unsupported media type"


class WrongHost(Problem):
    """The Host header names another server."""

    status, title = 421, "Misdirected request"


class Unprocessable(Problem):
    """The request is well-formed but invalid."""

    status, title = 422, "Invalid content"


class KeyReused(Unprocessable):
    """The Idempotency-Key belongs to another call (draft-ietf-httpapi-idempotency-key-header)."""

    title = "Idempotency key reused"


class SealedValueChanged(Unprocessable):
    """A sealed value does not open, because it was changed or moved."""

    title = "Sealed value changed"


class TooManyRequests(RetryLater):
    """The caller exceeded the rate limit and may retry after `retry_after_s`."""

    status, title = 429, "Too many requests"

    def __init__(self, detail: str, retry_after_s: float) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class LimitReached(Problem):
    """A store has the maximum number of keys."""

    status, title = 429, "Limit reached"


class NotInstalled(Problem):
    """An optional package is missing."""

    status, title = 501, "Not installed"


class Unavailable(RetryLater):
    """The bus or the catalog is down or overloaded."""

    status, title = 503, "Service unavailable"


class GatewayTimeout(Problem):
    """No result in time. The message may still run."""

    status, title = 504, "No answer in time"


class CallTimeout(RetryLater, GatewayTimeout):
    """An operation sent no answer in time. The client may call it again."""


def no_pipeline(uid: str) -> NotFound:
    """Return the error for an unknown pipeline, and for one that the caller may not see."""
    return NotFound(
        f"no active pipeline has the uid {uid[:100]!r}; GET /v1/pipelines lists uids and names"
    )


def problem_response(status: int, title: str, detail: str, members: dict[str, Any]) -> web.Response:
    """Build a problem JSON response."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail} | members
    return web.Response(status=status, body=orjson.dumps(body), content_type=PROBLEM_TYPE)


def problem_from(fault: Exception) -> Problem:
    """Convert an error of the bus or the control plane."""
    match fault:
        case BusBusy() | NoOwner():
            return Unavailable(str(fault))
        case BusRefused():
            return Unavailable(f"the bus rejected the command: {fault}")
        case BusError():
            return Unavailable(
                f"the bus does not answer: {fault}. The message may have arrived; retry it with "
                "the same webhook-id to avoid a duplicate"
            )
        case _:
            return Unavailable(str(fault))


def get_request_id(request: web.BaseRequest) -> str:
    """Return the client's X-Request-Id if it is valid, otherwise a generated id."""
    if _REQUEST_ID not in request:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        request[_REQUEST_ID] = given if VALID_REQUEST_ID.fullmatch(given) else os.urandom(16).hex()
    return request[_REQUEST_ID]


async def add_request_id(request: web.Request, response: web.StreamResponse) -> None:
    """Set X-Request-Id on every response (aiohttp's `on_response_prepare` signal)."""
    response.headers[REQUEST_ID_HEADER] = get_request_id(request)


@web.middleware
async def handle_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn every exception into problem JSON. Internal errors are logged, not shown."""
    try:
        return await handler(request)
    except Problem as fault:
        return fault.as_response()
    except web.HTTPException as fault:
        return _convert_aiohttp_error(request, fault)
    except web.RequestPayloadError as fault:
        return problem_response(400, BadRequest.title, f"the body cannot be read: {fault}", {})
    except (ConnectionResetError, ConnectionAbortedError):
        raise  # the client has disconnected
    except (BusError, StoreBusy, StoreBroken) as fault:
        return problem_from(fault).as_response()
    except Exception as fault:
        log.error(
            "request_failed",
            method=request.method,
            route=_route_template(request),
            uid=request.match_info.get("uid", ""),
            request_id=get_request_id(request),
            exc_info=fault,
        )
        return problem_response(500, Problem.title, "see the server's log for the cause", {})


def _route_template(request: web.Request) -> str:
    """Return the path with placeholders, because Kilroy's webhook path contains a token."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _convert_aiohttp_error(request: web.Request, fault: web.HTTPException) -> web.StreamResponse:
    """Convert aiohttp's own errors (unknown path, wrong method). Redirects are raised again."""
    if fault.status < 400:
        raise fault
    has_oauth = request.app[OPTIONS].has_oauth
    detail, members = find_path_hint(request.path, fault.status, has_oauth=has_oauth) or (
        _DETAILS.get(fault.status, fault.text or fault.reason),
        {},
    )
    response = problem_response(fault.status, fault.reason.capitalize(), detail, members)
    if "Allow" in fault.headers:
        response.headers["Allow"] = fault.headers["Allow"]
    return response


async def explain_failed_expectation(_: web.Request, response: web.StreamResponse) -> None:
    """Give a 417 response a problem body.

    aiohttp rejects an unknown `Expect` value before any middleware runs.
    """
    if response.status == HTTPStatus.EXPECTATION_FAILED and isinstance(response, web.Response):
        replacement = problem_response(
            response.status,
            "Expectation failed",
            "`Expect` supports only 100-continue; omit the header",
            {},
        )
        response.content_type, response.charset = replacement.content_type, None
        response.body = replacement.body
        # aiohttp has already set the length of the old body.
        response.headers[hdrs.CONTENT_LENGTH] = str(replacement.content_length)


def _log_malformed_request(record: logging.LogRecord) -> bool:
    """Replace aiohttp's log record, whose traceback repeats the request, with a plain event."""
    error = record.exc_info[1] if record.exc_info else None
    log.info("request_malformed", reason=type(error).__name__)
    return False


malformed_request_log = logging.getLogger("memrelay.malformed")
malformed_request_log.addFilter(_log_malformed_request)


class ProblemRequestHandler(web.RequestHandler):
    """aiohttp's protocol with problem JSON for unparsable requests.

    The response never repeats the request.
    """

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Build the response to an unparsable request and close the connection."""
        response = super().handle_error(request, status, exc, message)
        if status != BadRequest.status:
            return response
        if isinstance(exc, LineTooLong):
            detail = (
                f"a line of the request head is longer than {self.max_line_size} bytes; "
                "send long values in the body"
            )
        else:
            detail = "the request is not valid HTTP/1.1"
        replacement = BadRequest(detail).as_response()
        replacement.headers[REQUEST_ID_HEADER] = get_request_id(request)
        replacement.force_close()
        return replacement
