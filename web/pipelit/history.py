"""/api/v1/workflows/{workflow}/chat/history: the conversation of a user with a pipeline's agent."""

from datetime import UTC, datetime
from typing import Any

from aiohttp import hdrs, web

from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.api.operations import call_operation
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.openapi.route_docs import IDEMPOTENCY_HEADERS, documented
from memrelay.web.pipelit import shapes
from memrelay.web.pipelit.errors import PIPELIT
from memrelay.web.pipelit.lists import PAGE_SCHEMAS, READ_ERRORS, _parse_number
from memrelay.web.pipelit.paths import HISTORY, serve
from memrelay.web.server.error_dialects import error_dialect
from memrelay.web.server.errors import BadRequest, NotFound
from memrelay.web.server.services import get_services

routes = web.RouteTableDef()
