"""The page of one dead letter with its message."""

from typing import Any

from aiohttp import web

from memrelay.web.api.dead_letter_json import NoDeadLetter, find_dead_letter, to_detail
from memrelay.web.auth.access import requires
from memrelay.web.console.frame import as_page, render_page
from memrelay.web.console.letters import read_message
from memrelay.web.console.page import Page
from memrelay.web.console.pages.dead_letters import list_names
from memrelay.web.openapi.route_docs import HTML, documented
from memrelay.web.server.errors import NotFound
from memrelay.web.server.services import get_services
from memrelay.web.trace.inputs import entry_of

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
    uid, ident = request.match_info["uid"], request.match_info["ident"]
    services = get_services(request)
    try:
        letter = await find_dead_letter(services.catalog, uid, ident)
    except NoDeadLetter as fault:
        raise NotFound(
            "There is no such dead letter. It may have been replayed or dropped."
        ) from fault
    sender, text = read_message(letter.data)
    names, shown = await list_names(request), text[:MAX_CHARACTERS]
    values: dict[str, Any] = {
        "letter": to_detail(letter),
        "sender": sender,
        "text": shown,
        "hidden": len(text) - len(shown),
        "entry": entry_of(ident),
        "letter_uid": uid,
        "pipeline_name": names.get(uid, uid),
        "is_active": uid in names,
        "wait_s": services.options.max_wait_s,
    }
    return await render_page(request, PAGE, "dead_letter.html", **values)
