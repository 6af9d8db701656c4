"""The page of one dead letter with its message."""

from typing import Any

from aiohttp import web

from memrelay.web.api.dead_letter_json import to_detail
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.console.frame import as_page, render, render_page
from memrelay.web.console.page import Page
from memrelay.web.console.pages.dead_letters import list_names, read_state
from memrelay.web.console.refresh import answer_changed
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import get_services
from memrelay.web.trace.inputs import entry_of
from memrelay.web.trace.letters import read_message

PAGE = Page("Dead letter", "/dead-letters/{uid}/{ident}", parent="Dead letters")
routes = web.RouteTableDef()
# Characters of a message. The JSON has all of them.
MAX_CHARACTERS = 20_000


@routes.get(PAGE.path)
@documented(
    {200: "The page.", 303: "Login required.", 404: "There is no such dead letter."},
    media_type=HTML,
)
@as_page
@requires("read")
async def dead_letter(request: web.Request) -> web.Response:
    """Show a dead letter with its message."""
    values = await _letter_values(request)
    if values["letter"] is None:
        raise NotFound("There is no such dead letter. It may have been replayed or dropped.")
    return await render_page(request, PAGE, "dead_letter.html", **values)


@routes.get(PAGE.path + "/letter")
@documented({200: "The fragment.", 304: "Nothing has changed."}, media_type=HTML)
@requires("read")
async def letter_fragment(request: web.Request) -> web.Response:
    """Return a dead letter with its message, or that it is gone."""

    async def make() -> web.Response:
        return render("fragments/dead_letter.html", **await _letter_values(request))

    return await answer_changed(request, await read_state(request), make)


async def _letter_values(request: web.Request) -> dict[str, Any]:
    """Return the template values of a letter. `letter` is None if it does not exist."""
    uid, ident = request.match_info["uid"], request.match_info["ident"]
    services = get_services(request)
    letter, names = (
        await services.catalog.letters.find(uid, ident),
        await list_names(request, [uid]),
    )
    sender, text = read_message(letter.data) if letter else ("", "")
    return {
        "letter": None if letter is None else to_detail(letter),
        "ident": ident,
        "sender": sender,
        "text": text[:MAX_CHARACTERS],
        "hidden": max(0, len(text) - MAX_CHARACTERS),
        "entry": entry_of(ident),
        "letter_uid": uid,
        "pipeline_name": names.get(uid, uid),
        "is_active": uid in names,
        "wait_s": services.options.max_wait_s,
        "caller": get_caller(request),
    }
