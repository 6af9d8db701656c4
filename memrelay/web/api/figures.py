"""/v1/figures: the recorded figures of a day or a week."""

from aiohttp import web

from memrelay.memory.control.figures_file import FIGURES as NAMES
from memrelay.memory.control.figures_file import SPANS
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.api.answers import json_response, refuse_unknown
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.figures.reading import FIGURES, OF_ALL_PIPELINES
from memrelay.web.openapi.route_docs import documented
from memrelay.web.openapi.shapes import RecordedFigures
from memrelay.web.server.errors import BadRequest
from memrelay.web.services import get_services

routes = web.RouteTableDef()


@routes.get("/v1/figures")
@documented(
    {200: "The figures of the span.", 404: "The pipeline does not exist."},
    query={
        "span": "`day` (the default): one-minute steps. `week`: ten-minute steps.",
        "pipeline": "Only this pipeline, by its uid.",
    },
    query_schemas={"span": {"type": "string", "enum": list(SPANS)}},
    schemas={200: RecordedFigures},
)
@requires("read")
async def figures(request: web.Request) -> web.Response:
    """Show recorded rates, latencies, sizes and faults of all pipelines of the key, or of one.

    Steps without a record, such as those while the server was off, are left out. `figures` has the
    values of the steps in `at`; an unknown value is null. Figures that are never known are left
    out. `normal` has the medians of the week.
    """
    refuse_unknown(request, ("span", "pipeline"))
    span, uid = request.query.get("span", "day"), request.query.get("pipeline", "")
    if span not in SPANS:
        raise BadRequest(f"`span` must be day or week, not {span[:20]!r}")
    caller = get_caller(request)
    if uid:
        caller.check_pipeline(uid)
        await get_services(request).directory.find(uid)
    found = await request.config_dict[FIGURES].read(span, caller, uid)
    names = [
        name
        for name in NAMES
        if (caller.sees_all or name not in OF_ALL_PIPELINES)
        and any(name in step for _, step in found.steps)
    ]
    body = {
        "span": span,
        "step_s": SPANS[span].step_s,
        "from": format_time(found.since * 1000),
        "until": format_time(found.until * 1000),
        "at": [format_time(at * 1000) for at, _ in found.steps],
        "figures": {name: [step.get(name) for _, step in found.steps] for name in names},
        "normal": {name: value for name, value in found.normal.items() if name in names},
        "marks": [
            {"at": format_time(mark.at * 1000), "kind": mark.kind, "subject": mark.subject}
            for mark in found.marks
        ],
    }
    return json_response(body)
