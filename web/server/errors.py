"""What an HTTP caller is told when something fails: problem JSON (RFC 9457), from the one place
that catches everything.

Problem
├── BadRequest          400  what was sent cannot be understood
├── Unauthorized        401  the key, token or signature is missing or wrong
├── Forbidden           403  a web page of another origin asked
├── NotAllowed          403  the key is good, and does not go so far
├── NotFound            404  no such pipeline, agent, swarm or page
├── Conflict            409  it is there already, or several are meant
├── TooSlow             408  the request was not whole in time
├── PreconditionFailed  412  another version is in service than If-Match names
├── TooLarge            413  longer than a message may be
├── WrongType           415  a browser must send JSON; nobody may send what is packed
├── (aiohttp's own)     417  `Expect` has anything but 100-continue
├── WrongHost           421  the Host header names another server
├── Unprocessable       422  understood, and wrong; `faults` has all that is wrong
│   └── KeyReused       422  the Idempotency-Key stands for another call
├── TooOften            429  more requests than one caller may make
├── Unavailable         503  the bus or the catalogue is away, or too busy
└── TooLate             504  nobody answered in time
"""

import logging
import re
from http import HTTPStatus
from math import ceil
from typing import Any, ClassVar
from uuid import uuid4

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.typedefs import Handler
from multidict import istr

from memrelay.bus.errors import BusBusy, BusError, BusRefused, NoOwner
from memrelay.memory.errors import StoreBroken, StoreBusy

# X-Request-Id: the caller's where it is harmless, else made; it stands on every answer, and in the
# log of a fault.

HEADER = istr("X-Request-Id")
HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}")
_ID = web.RequestKey("request_id", str)


def id_of(request: web.BaseRequest) -> str:
    """The request's id, the same whenever it is asked for."""
    if _ID not in request:
        given = request.headers.get(HEADER, "")
        request[_ID] = given if HARMLESS.fullmatch(given) else uuid4().hex
    return request[_ID]


async def tell_id(request: web.Request, response: web.StreamResponse) -> None:
    """aiohttp's call, before the head of any answer leaves."""
    response.headers[HEADER] = id_of(request)


log = structlog.stdlib.get_logger(__name__)
RETRY_AFTER_S = 1


class Problem(Exception):
    """A fault with a status; what is given beside the detail stands in the answer too."""

    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong here"

    def __init__(self, detail: str, **members: Any) -> None:
        """`detail` names the rule and the remedy."""
        super().__init__(detail)
        self.detail, self.members = detail, members

    def as_response(self) -> web.Response:
        """The answer."""
        return problem(self.status, self.title, self.detail, self.members)


class BadRequest(Problem):
    """What was sent cannot be understood."""

    status, title = 400, "The request cannot be understood"


class Unauthorized(Problem):
    """The key, token or signature is missing or wrong."""

    status, title = 401, "Not let in"

    def as_response(self) -> web.Response:
        """The answer, with how to send one."""
        response = super().as_response()
        response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
        return response


class Forbidden(Problem):
    """A page of another origin asked."""

    status, title = 403, "Not from here"


class NotAllowed(Problem):
    """The key is good, and does not go so far."""

    status, title = 403, "The key does not allow this"


class NotFound(Problem):
    """There is no such thing."""

    status, title = 404, "There is no such thing"


class Conflict(Problem):
    """It is there already, or several are meant."""

    status, title = 409, "It cannot be told which, or it is there already"


class PreconditionFailed(Problem):
    """Another version is in service; `active` is the hash of its bundle, null where there is
    none."""

    status, title = 412, "It has changed meanwhile"


class TooLarge(Problem):
    """Longer than a message may be."""

    status, title = 413, "The message is too long"


class TooSlow(Problem):
    """The request was not whole in time."""

    status, title = 408, "The request took too long to arrive"

    def as_response(self) -> web.Response:
        """The answer, which is the connection's last."""
        response = super().as_response()
        response.force_close()
        return response


class WrongType(Problem):
    """The body has a form that is not taken."""

    status, title = 415, "The body cannot be taken in this form"


class WrongHost(Problem):
    """The Host header names another server."""

    status, title = 421, "Another server is meant"


class Unprocessable(Problem):
    """Understood, and wrong."""

    status, title = 422, "What was sent is not valid"


class KeyReused(Unprocessable):
    """The Idempotency-Key stands for another call (draft-ietf-httpapi-idempotency-key-header,
    2.7)."""

    title = "The Idempotency-Key was used already"


class TooOften(Problem):
    """More requests than one caller may make."""

    status, title = 429, "Too many requests"

    def __init__(self, detail: str, wait_s: float) -> None:
        """There is room again in `wait_s`."""
        super().__init__(detail)
        self._wait_s = wait_s

    def as_response(self) -> web.Response:
        """The answer, with when to come again."""
        response = super().as_response()
        response.headers[hdrs.RETRY_AFTER] = str(ceil(self._wait_s))
        return response


class Unavailable(Problem):
    """Not now."""

    status, title = 503, "Not available now"

    def as_response(self) -> web.Response:
        """The answer, with when to come again."""
        response = super().as_response()
        response.headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_S)
        return response


class TooLate(Problem):
    """Nobody answered in time."""

    status, title = 504, "Nobody answered in time"


class NotAnswered(TooLate):
    """Nor was an operation, which may be called again."""

    def as_response(self) -> web.Response:
        """The answer, with when to come again."""
        response = super().as_response()
        response.headers[hdrs.RETRY_AFTER] = str(RETRY_AFTER_S)
        return response


def no_pipeline(uid: str) -> NotFound:
    """The same whether there is none, or the caller may not know of it."""
    return NotFound(
        f"no pipeline in service has the uid {uid[:100]!r}; GET /v1/pipelines lists uids and names"
    )


def problem(status: int, title: str, detail: str, members: dict[str, Any]) -> web.Response:
    """A problem as an answer."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail} | members
    return web.Response(
        status=status, body=orjson.dumps(body), content_type="application/problem+json"
    )


@web.middleware
async def tell_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The outer edge: whatever fails becomes a problem, and nothing of a fault of ours is shown."""
    try:
        return await handler(request)
    except Problem as fault:
        return fault.as_response()
    except web.HTTPException as fault:
        return _from_aiohttp(fault)
    except web.RequestPayloadError as fault:
        return problem(400, BadRequest.title, f"the body cannot be read: {fault}", {})
    except (ConnectionResetError, ConnectionAbortedError):
        raise  # the caller has left: there is nobody to tell
    except (BusError, StoreBusy, StoreBroken) as fault:
        return from_fault(fault).as_response()
    except Exception as fault:
        log.error(
            "request_failed",
            method=request.method,
            route=_route_of(request),
            uid=request.match_info.get("uid", ""),
            request_id=id_of(request),
            exc_info=fault,
        )
        return problem(500, Problem.title, "the server's log says more", {})


def _route_of(request: web.Request) -> str:
    """The path as it is declared: in Kilroy's stands a token, which belongs into no log."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def from_fault(fault: Exception) -> Problem:
    """A fault of the bus or of the control plane, as its caller should see it."""
    match fault:
        case BusBusy() | NoOwner():
            return Unavailable(str(fault))
        case BusRefused():
            return Unavailable(f"the bus has refused it: {fault}")
        case BusError():
            return Unavailable(
                f"the bus does not answer: {fault}. What was sent may have arrived; sent again under the same "
                "webhook-id it has no second effect"
            )
        case _:
            return Unavailable(str(fault))


def _from_aiohttp(fault: web.HTTPException) -> web.StreamResponse:
    """aiohttp's own refusals (no such route, wrong method, body too large); a redirect passes."""
    if fault.status < 400:
        raise fault
    response = problem(
        fault.status, fault.reason, _DETAILS.get(fault.status, fault.text or fault.reason), {}
    )
    if "Allow" in fault.headers:
        response.headers["Allow"] = fault.headers["Allow"]
    return response


async def tell_expectation(_: web.Request, response: web.StreamResponse) -> None:
    """aiohttp's call, before the head of any answer leaves: it refuses what `Expect` says itself,
    before anything of ours."""
    if response.status == HTTPStatus.EXPECTATION_FAILED and isinstance(response, web.Response):
        told = problem(
            response.status,
            "This cannot be expected",
            "`Expect` takes 100-continue alone; leave it out",
            {},
        )
        response.content_type, response.charset, response.body = told.content_type, None, told.body
        response.headers[hdrs.CONTENT_LENGTH] = str(told.content_length)  # it was counted before


def _tell_malformed(record: logging.LogRecord) -> bool:
    """aiohttp logs what is no HTTP with a traceback that repeats what was sent; it becomes an event
    that does not."""
    error = record.exc_info[1] if record.exc_info else None
    log.info("request_malformed", reason=type(error).__name__)
    return False


malformed_log = logging.getLogger("memrelay.malformed")  # for aiohttp's server
malformed_log.addFilter(_tell_malformed)

_DETAILS = {
    404: "no such path; docs/http.md lists them",
    405: "the header Allow lists the methods that this path takes",
}


# What is no request: told as a problem too, by aiohttp's own way to tell it.


class TellingHandler(web.RequestHandler):
    """aiohttp's protocol, which tells what it cannot read as problem JSON, and nothing of what was
    sent."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """aiohttp's call: a request could not be read, which is logged, and ends the connection."""
        response = super().handle_error(request, status, exc, message)
        if status != BadRequest.status:
            return response
        rule = (
            f"a line of the request's head is longer than {self.max_line_size} bytes; what is long belongs into the body"
            if isinstance(exc, LineTooLong)
            else "what was sent cannot be read as an HTTP/1.1 request"
        )
        told = BadRequest(rule).as_response()
        told.headers[HEADER] = id_of(request)
        told.force_close()
        return told
