"""Explanations of paths that clients of MCP try, and that this server does not have."""

import re
from typing import NamedTuple

MCP_URL = "the path of MCP is /mcp/UID for a pipeline, or /mcp for all pipelines of a key"


class PathHint(NamedTuple):
    """What to do instead. `members` are extra fields of the response body."""

    detail: str
    members: dict[str, str]


NO_OAUTH = (
    "this server has no OAuth; create a key with `memrelay keys create` and let the client send "
    "it as the header `Authorization: Bearer KEY`, or start `memrelay mcp UID` over stdio"
)
HINTS = (
    (
        re.compile(r"(?:/mcp(?:/[^/]+)?)?/(?:sse|messages?)/?"),
        PathHint(
            "there is no SSE transport; select the transport `streamable HTTP` (also called "
            f"`http`) in the client: {MCP_URL}",
            {},
        ),
    ),
    (
        # The fields `error` and `error_description` are those that OAuth clients show.
        re.compile(
            r"(?:/mcp(?:/[^/]+)?)?/(?:\.well-known/(?:oauth-[a-z-]+|openid-configuration)(?:/.*)?|"
            r"register|authorize|token)"
        ),
        PathHint(NO_OAUTH, {"error": "invalid_request", "error_description": NO_OAUTH}),
    ),
    (re.compile(r"/p/[^/]+/mcp(?:/.*)?"), PathHint(f"there is no /p/UID/mcp; {MCP_URL}", {})),
)
# For methods other than POST.
POST_ONLY = (
    re.compile(r"/mcp(?:/[^/]+(?:/(?:graph|files))?)?"),
    PathHint(
        "MCP takes POST only: the server keeps no sessions and opens no stream for GET. In a "
        "client, select the transport `streamable HTTP` (also called `http`), not `sse`",
        {},
    ),
)


def find_path_hint(path: str, status: int) -> PathHint | None:
    """Return the explanation of a path, for a response with status 404 or 405; None for none."""
    hints = {404: HINTS, 405: (POST_ONLY,)}.get(status, ())
    return next((hint for pattern, hint in hints if pattern.fullmatch(path)), None)
