"""What is no request: told as a problem too, by aiohttp's own way to tell it."""

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from web.errors import BadRequest
from web.request_id import HEADER, id_of


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
