"""/kvstore and /eventlog: key-value pairs and events."""

from aiohttp import web

from memrelay.web.models.codebolt import shapes
from memrelay.web.models.codebolt.crud import Crud
from memrelay.web.models.codebolt.errors import CODEBOLT_API
from memrelay.web.models.request_fields import Body, Json, same, spell, within
from memrelay.web.models.routes import Call, Route, first_of, serve_all
from memrelay.web.models.shapes import to_shape

routes = web.RouteTableDef()
KV, LOG = "/kvstore", "/eventlog"
PAIR = KV + "/kv/{instance}/{namespace}/{key}"
NEW_INSTANCE = Body(fields=same("name", "description"), example="{name, description?}")
EVENT = spell(stream_id=("stream_id", "streamId"), event_type=("event_type", "eventType")) | same(
    "payload", "metadata", "timestamp"
)
LOG_NAME = spell(instance="instanceId", auto_create="autoCreateInstance")
PAGE = same("where", "select", "limit", "offset")
ORDER = same("field", "direction")


def _event_result(call: Call) -> Json:
    """Return the result of a query over events, with the names that events have elsewhere."""
    renamed = {"instance_id": "instanceId"}
    found: Json = to_shape(shapes.EventResult, call.output)
    if "events" in found:
        found["events"] = [
            {renamed.get(name, name): value for name, value in one.items()}
            for one in found["events"]
        ]
    return found


def _instance_routes(root: str, instances: Crud) -> tuple[Route, ...]:
    """Return the routes of the instances of one kind."""
    path, one = f"{root}/instances", root + "/instances/{id}"
    return (
        instances.create(path, NEW_INSTANCE),
        instances.list_all(path),
        instances.read(one),
        instances.update(one, NEW_INSTANCE),
        instances.delete(one),
    )


STORES = Crud("instances", "key-value store", shapes.KvInstance, fixed={"sort": "kv"})
LOGS = Crud("instances", "event log", shapes.LogInstance, fixed={"sort": "events"})
serve_all(
    CODEBOLT_API,
    routes,
    (
        *_instance_routes(KV, STORES),
        *_instance_routes(LOG, LOGS),
        Route(
            "POST",
            f"{KV}/kv",
            "kv.set",
            "Store a key-value pair.",
            shape=shapes.KvRecord,
            status=201,
            body=Body(
                fields=LOG_NAME | same("namespace", "key", "value"),
                example="{instanceId, namespace, key, value, autoCreateInstance?}",
            ),
        ),
        Route(
            "GET",
            PAIR,
            "kv.get",
            "Return the value of a key.",
            convert=first_of(shapes.KvValue),
            shape=shapes.KvValue,
            path_fields={"key": "keys/0"},
        ),
        Route(
            "DELETE",
            PAIR,
            "kv.delete",
            "Delete a key.",
            shape=shapes.KeyDeleted,
        ),
        Route(
            "DELETE",
            KV + "/namespace/{instance}/{namespace}",
            "kv.clear",
            "Delete all keys of a namespace.",
            shape=shapes.NamespaceDeleted,
        ),
        Route(
            "POST",
            f"{KV}/query",
            "kv.query",
            "Find key-value pairs.",
            shape=shapes.KvResult,
            body=Body(
                fields=spell(
                    instance=("from/instance", "instance"),
                    namespace=("from/namespace", "namespace"),
                    order_by=("orderBy", "order"),
                )
                | PAGE,
                example="{from: {instance, namespace?}, where?, select?, orderBy?, limit?, offset?}"
                " or {instance, namespace, where?, order?, limit?}",
            ),
        ),
        Route(
            "POST",
            f"{LOG}/events",
            "events.append",
            "Append an event.",
            convert=first_of(shapes.Event, "events"),
            shape=shapes.Event,
            status=201,
            body=Body(
                fields=LOG_NAME | within("events/0", "", EVENT),
                example="{instanceId, stream_id, event_type, payload, metadata?, timestamp?, "
                "autoCreateInstance?}",
            ),
        ),
        Route(
            "POST",
            f"{LOG}/events/batch",
            "events.append",
            "Append all of several events, or none.",
            shape=shapes.Events,
            status=201,
            body=Body(
                fields=LOG_NAME | within("events/*", "events/*", EVENT),
                example="{instanceId, events, autoCreateInstance?}",
            ),
        ),
        Route(
            "POST",
            f"{LOG}/query",
            "events.query",
            "Find or aggregate events.",
            convert=_event_result,
            shape=shapes.EventResult,
            body=Body(
                fields=spell(instance="from/instance", stream="from/stream")
                | within("order_by", "orderBy", ORDER)
                | within("reduce", "reduce", same("type", "field") | spell(group_by="groupBy"))
                | PAGE,
                example="{from: {instance, stream?}, where?, select?, orderBy?, limit?, offset?, "
                "reduce?: {type, field?, groupBy?}}",
            ),
        ),
    ),
)
