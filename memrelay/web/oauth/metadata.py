"""The metadata documents, and the header of refused requests that leads a client to them.

RFC 8414 describes the authorization server and RFC 9728 the resource. Both put the path of what
they describe behind the well-known one, at the root of the host.
"""

from aiohttp import hdrs, web

from memrelay.memory.control.keys import DEFAULT_SCOPES, GRANTABLE
from memrelay.web.auth.access import open_to_all
from memrelay.web.oauth.authorization_server import get_server
from memrelay.web.oauth.resources import PATH
from memrelay.web.server.errors import NotFound
from memrelay.web.server.options import OPTIONS

SERVER_PATH = "/.well-known/oauth-authorization-server"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"


def register_metadata(app: web.Application) -> None:
    """Add the documents, at the root of the host also with a base path."""
    base_path = app[OPTIONS].base_path
    app.router.add_get(SERVER_PATH + base_path, describe_server)
    app.router.add_get(f"{RESOURCE_PATH}{base_path}{{path:/mcp(?:/.*)?}}", describe_resource)
    app.on_response_prepare.append(challenge)


@open_to_all
async def describe_server(request: web.Request) -> web.Response:
    """Return the metadata of the authorization server."""
    issuer = get_server(request).issuer
    return web.json_response(
        {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/oauth/authorize",
            "token_endpoint": f"{issuer}/oauth/token",
            "registration_endpoint": f"{issuer}/oauth/register",
            "revocation_endpoint": f"{issuer}/oauth/revoke",
            "scopes_supported": list(GRANTABLE),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
        }
    )


@open_to_all
async def describe_resource(request: web.Request) -> web.Response:
    """Return the metadata of a path of MCP. Whether the pipeline exists does not matter."""
    path = request.match_info["path"]
    if not PATH.fullmatch(path):
        raise NotFound("the resources are /mcp, /mcp/UID, /mcp/UID/graph and /mcp/UID/files")
    issuer = get_server(request).issuer
    return web.json_response(
        {
            "resource": issuer + path,
            "authorization_servers": [issuer],
            # A client asks for all of them. It asks for more when a call needs more.
            "scopes_supported": list(DEFAULT_SCOPES),
            "bearer_methods_supported": ["header"],
            "resource_name": "Memrelay",
        }
    )


async def challenge(request: web.Request, response: web.StreamResponse) -> None:
    """Name the metadata in refusals of MCP (aiohttp's `on_response_prepare` signal)."""
    if response.status not in (401, 403):
        return
    path = request.path.removeprefix(request.app[OPTIONS].base_path)
    if not PATH.fullmatch(path):
        return
    issuer = get_server(request).issuer
    host = issuer.removesuffix(request.app[OPTIONS].base_path)
    url = f"{host}{RESOURCE_PATH}{request.app[OPTIONS].base_path}{path}"
    parameters = [f'resource_metadata="{url}"']
    if response.status == 401:
        parameters.append(f'scope="{" ".join(DEFAULT_SCOPES)}"')
        if hdrs.AUTHORIZATION in request.headers:
            parameters.append('error="invalid_token"')
        response.headers[hdrs.WWW_AUTHENTICATE] = f"Bearer {', '.join(parameters)}"
    elif hdrs.WWW_AUTHENTICATE in response.headers:
        response.headers[hdrs.WWW_AUTHENTICATE] += f", {parameters[0]}"
