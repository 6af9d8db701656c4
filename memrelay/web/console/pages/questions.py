"""The page "Tests", which asks golden questions of a pipeline and shows what failed."""

from importlib import import_module
from typing import Any

import orjson
from aiohttp import web

from memrelay.web.api.directory import Served
from memrelay.web.console.frame import FOR_READERS, Page, PageRoutes, find_served, render
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.openapi.shapes import GoldenQuestions
from memrelay.web.server.errors import BadRequest
from memrelay.web.server.request_body import read_json_body

PAGE = Page("Tests", "/pipelines/{uid}/tests", menu="pipeline", order=54, parent="Pipelines")
ERRORS = {404: "There is no such pipeline."}
routes = PageRoutes(PAGE, errors=ERRORS)
# Questions of one request.
MAX_QUESTIONS = 200
# It is loaded with the first questions.
RUNNER = "memrelay.web.console.golden_questions"


@routes.pipeline_page("questions.html", ident="questions.questions")
async def questions(request: web.Request, served: Served) -> dict[str, Any]:
    """Show a form for golden questions."""
    return {"most": MAX_QUESTIONS}


@routes.post(PAGE.path)
@documented(
    {200: "The outcomes, or the faults of the questions.", 400: "The body is invalid."} | ERRORS,
    media_type=HTML,
    body="The golden questions.",
    body_schema=GoldenQuestions,
    ident="questions.ask",
)
@FOR_READERS
async def ask_questions(request: web.Request) -> web.Response:
    """Ask golden questions, and return the outcomes. Nothing is stored."""
    served = await find_served(request)
    text = await _read_questions(request)
    ask = import_module(RUNNER).ask_questions
    values = await ask(request, served.deployed.uid, text, MAX_QUESTIONS)
    return render(request, "fragments/questions.html", **values)


async def _read_questions(request: web.Request) -> str:
    """Return the golden questions in a body. Raises BadRequest."""
    try:
        text = orjson.loads(await read_json_body(request))["questions"]
        text.encode()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadRequest('the body must be {"questions": "..."} with YAML') from error
    return str(text)
