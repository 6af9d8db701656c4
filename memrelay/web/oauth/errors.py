"""Errors of the endpoints of OAuth, in the form of RFC 6749, section 5.2."""

import orjson
from aiohttp import hdrs, web

from memrelay.web.server.errors import Problem

NO_STORE = {hdrs.CACHE_CONTROL: "no-store"}


class OAuthError(Problem):
    """A refused request. `code` is the error code that clients understand."""

    status, title = 400, "Refused by OAuth"

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code

    def as_response(self) -> web.Response:
        """Return the code and the detail as JSON."""
        return oauth_json({"error": self.code, "error_description": self.detail}, self.status)


def oauth_json(body: dict[str, object], status: int = 200) -> web.Response:
    """Return a JSON response that nobody stores."""
    return web.Response(
        status=status,
        body=orjson.dumps(body),
        content_type="application/json",
        headers=NO_STORE,
    )
