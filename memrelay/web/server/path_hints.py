"""Explanations of paths that clients of MCP try, and that this server does not have."""

import re
from typing import NamedTuple

MCP_URL = "the path of MCP is /mcp/UID for a pipeline, or /mcp for all pipelines of a key"


class PathHint(NamedTuple):
    """What to do instead. `members` are extra fields of the response body."""

    detail: str
    members: dict[str, str]


NO_OAUTH = (
    "this server has no OAuth, which needs `web.public_url` with https; or create a key with "
    "`memrelay keys create` and let the client send it as the header `Authorization: Bearer KEY`, "
    "or start `memrelay mcp UID` over stdio"
)
HAS_OAUTH = (
    "nothing of OAuth is at this path; give the client the URL of MCP, such as /mcp/UID, and it "
    "finds the rest in /.well-known/oauth-protected-resource/mcp/UID and "
    "/.well-known/oauth-authorization-server"
)
# The paths of OAuth that clients try.
OAUTH = re.compile(
    r"(?:/mcp(?:/[^/]+)?)?/(?:\.well-known/(?:oauth-[a-z-]+|openid-configuration)(?:/.*)?|"
    r"register|authorize|token)"
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


def find_path_hint(path: str, status: int, *, has_oauth: bool) -> PathHint | None:
    """Return the explanation of a path, for a response with status 404 or 405; None for none."""
    if status == 404 and OAUTH.fullmatch(path):
        detail = HAS_OAUTH if has_oauth else NO_OAUTH
        # These fields are those that OAuth clients show.
        return PathHint(detail, {"error": "invalid_request", "error_description": detail})
    hints = {404: HINTS, 405: (POST_ONLY,)}.get(status, ())
    return next((hint for pattern, hint in hints if pattern.fullmatch(path)), None)
