"""The page `/keys`: all API keys, a form that creates one, and their revocation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.memory.control.key_requests import NEVER
from memrelay.memory.control.keys import ALL, SCOPES, Key
from memrelay.memory.engine.timestamps import format_time
from memrelay.web.auth.access import get_caller, requires
from memrelay.web.auth.authorizer import Caller
from memrelay.web.console.frame import Page, PageRoutes, answer_tagged, render_page
from memrelay.web.services import get_services

PAGE = Page("Keys", "/keys", menu="main", order=40, scopes=("admin",), sees_all=True)
routes = PageRoutes(PAGE, access=requires("admin", for_all_pipelines=True))
DAY_MS = 86_400_000
# Lifetimes that the form offers, in days.
LIFETIMES = {"1d": 1, "30d": 30, "90d": 90, "365d": 365}
CHOSEN_LIFETIME = "90d"
SCOPE_NOTES = {
    "read": "read records, logs and status, and use this console",
    "search": "find records with a query, without listing them",
    "write": "create and change records",
    "append": "add to records, without changing what they have",
    "delete": "delete records; they can be restored for some time",
    "publish": "send messages, so everything that the agents do for a message",
    "deploy": "deploy, change and remove pipelines",
    "admin": "erase records for good, import, replay; with all pipelines also create keys",
}


class KeyRow(NamedTuple):
    """A key in the table. Times are RFC 3339, "" for none. `state` is valid, expired or revoked."""

    id: str
    name: str
    scopes: list[str]
    # Pairs of the uid and the name, "" if the pipeline is not deployed. Empty for all pipelines.
    pipelines: list[tuple[str, str]]
    created_at: str
    expires_at: str
    revoked_at: str
    state: str
    # Whether the session of the page belongs to the key.
    is_own: bool
    is_last_valid: bool
    # For a grant to an OAuth client: the name of the user's key, and the id of the client.
    parent: str
    client: str


class Lifetime(NamedTuple):
    """An entry of the form's list of lifetimes. An empty `value` is not sent."""

    value: str
    text: str
    is_chosen: bool = False


@routes.page()
async def show_keys(request: web.Request) -> web.Response:
    """Show all keys and a form that creates one."""
    services, caller = get_services(request), get_caller(request)
    active = await services.catalog.active()
    now_ms = services.authorizer.now_ms
    return await render_page(
        request,
        PAGE,
        "keys.html",
        rows=await _list_rows(request, {one.uid: one.name for one in active}),
        is_open=not caller.key,
        scopes=[(one, SCOPE_NOTES[one]) for one in SCOPE_NOTES if one in caller.scopes],
        pipelines=active,
        lifetimes=_list_lifetimes(caller, now_ms),
    )


@routes.fragment("/keys/rows", responses={304: "The keys have not changed."})
async def keys_rows(request: web.Request) -> web.Response:
    """Return the table of keys."""
    active = await get_services(request).directory.list_pipelines()
    names = {one.deployed.uid: one.deployed.name for one in active}
    rows = await _list_rows(request, names)
    return await answer_tagged(request, rows, "fragments/keys.html", rows=rows)


async def _list_rows(request: web.Request, names: Mapping[str, str]) -> list[KeyRow]:
    """Return all keys: valid ones first, then the newest first. `names` are by uid."""
    authorizer, caller = get_services(request).authorizer, get_caller(request)
    keys = list((await authorizer.get_credentials()).keys.values())
    now_ms = authorizer.now_ms
    valid = [key.id for key in keys if not key.parent and not key.fault(now_ms)]
    key_names = {key.id: key.name for key in keys}
    rows = [
        _make_row(key, names, now_ms)._replace(
            is_own=key.id == caller.key,
            is_last_valid=valid == [key.id],
            parent=key_names.get(key.parent, ""),
        )
        for key in reversed(keys)
    ]
    return sorted(rows, key=lambda row: row.state != "valid")


def _make_row(key: Key, names: Mapping[str, str], now_ms: int) -> KeyRow:
    is_revoked = key.revoked_at is not None
    return KeyRow(
        key.id,
        key.name,
        [scope for scope in SCOPES if scope in key.scopes],
        []
        if ALL in key.pipelines
        else [(uid, names.get(uid, "")) for uid in sorted(key.pipelines)],
        format_time(key.created_at),
        _format_optional(key.expires_at),
        _format_optional(key.revoked_at),
        "revoked" if is_revoked else "expired" if key.fault(now_ms) else "valid",
        is_own=False,
        is_last_valid=False,
        parent="",
        client=key.client,
    )


def _format_optional(unix_ms: int | None) -> str:
    return "" if unix_ms is None else format_time(unix_ms)


def _list_lifetimes(caller: Caller, now_ms: int) -> Sequence[Lifetime]:
    """Return the lifetimes that the caller may give to a new key, the longest first."""
    offered: dict[str, Any] = {
        value: f"{days} day{'s' * (days > 1)}"
        for value, days in reversed(LIFETIMES.items())
        if caller.expires_at is None or now_ms + days * DAY_MS <= caller.expires_at
    }
    longest = Lifetime(NEVER, "never") if caller.expires_at is None else Lifetime("", "as yours")
    shorter = [
        Lifetime(value, f"in {text}", is_chosen=value == CHOSEN_LIFETIME)
        for value, text in offered.items()
    ]
    return [longest, *shorter]
