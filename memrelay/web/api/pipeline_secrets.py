"""PUT /v1/pipelines/UID/secrets/NAME: stores a secret of a pipeline. No route returns it again."""

import asyncio
import re
from base64 import b64encode
from secrets import token_bytes, token_urlsafe
from typing import Literal

import orjson
from aiohttp import web
from msgspec import Struct, ValidationError, convert

from memrelay.bus.keys import UID
from memrelay.pipelines.webhook_secrets import SECRET_PREFIX
from memrelay.web.api.answers import json_response
from memrelay.web.auth.access import requires
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import SecretStored, SecretToStore
from memrelay.web.server.errors import BadRequest, Conflict, Unavailable, Unprocessable
from memrelay.web.server.request_body import read_json_body
from memrelay.web.services import get_services

routes = web.RouteTableDef()
# A name begins with a letter or digit, so no file is hidden or leads elsewhere.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Random bytes of a secret that the server makes.
RANDOM_BYTES = 32


class _Given(Struct, forbid_unknown_fields=True):
    """The fields of the body."""

    value: str = ""
    form: Literal["text", "standard"] = "text"
    replace: bool = False


@routes.put("/v1/pipelines/{uid}/secrets/{name}")
@documented(
    {
        200: "The secret is stored.",
        409: "A secret with this name exists; `replace` was not set.",
        422: "The uid, the name or the value is invalid.",
    },
    body="The value; without one, the server makes a random secret.",
    body_schema=SecretToStore,
    schemas={200: SecretStored},
    ident="pipelines.put_secret",
)
@requires("admin")
async def put_secret(request: web.Request) -> web.Response:
    """Store a secret for bundles of this pipeline, in `secrets.folder` of this server.

    A bundle names it by `reference`. The answer has `value` only if the server has made it.
    """
    uid, name = request.match_info["uid"], request.match_info["name"]
    given = _parse(await read_json_body(request))
    if not UID.fullmatch(uid):
        raise Unprocessable("the uid must have 1 to 64 letters, digits, `_` and `-`")
    if not NAME.fullmatch(name):
        raise Unprocessable(
            "the name must begin with a letter or digit, and have at most 64 letters, digits, "
            "`.`, `_` and `-`"
        )
    made = "" if given.value else _make_secret(given.form)
    secrets, path = get_services(request).secrets, f"{uid}/{name}"
    try:
        await asyncio.to_thread(secrets.write, path, given.value or made, replace=given.replace)
    except ValueError as error:
        raise Unprocessable(f"the secret {error}") from error
    except FileExistsError as error:
        raise Conflict(f"the secret file:{path} exists; set `replace` to overwrite it") from error
    except OSError as error:
        raise Unavailable(f"the secret cannot be stored: {error.strerror}") from error
    shown = {"value": made} if made else {}
    return json_response({"reference": f"file:{path}"} | shown)


def _parse(body: bytes) -> _Given:
    """Return the fields of the body. Raises BadRequest, Unprocessable."""
    try:
        return convert(orjson.loads(body), _Given)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error.msg}") from error
    except ValidationError as error:
        raise Unprocessable(f"the body is no secret to store: {error}") from error


def _make_secret(form: str) -> str:
    if form == "standard":
        return SECRET_PREFIX + b64encode(token_bytes(RANDOM_BYTES)).decode()
    return token_urlsafe(RANDOM_BYTES)
