"""`memrelay keys`: create, list and revoke API keys for HTTP."""

import time
from typing import Annotated

import typer

from memrelay.cli.composition import fail, make_catalog, note, open_catalog, run
from memrelay.cli.options import Json, JsonAnyway
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, print_list
from memrelay.memory.control.catalog import catalog_exists
from memrelay.memory.control.key_requests import (
    NEVER,
    KeyRequest,
    create_key,
    find_faults,
    list_notes,
    raise_faults,
    to_json,
)
from memrelay.memory.control.keys import SCOPES, Key, KeysExist

Name = Annotated[str, typer.Argument(metavar="NAME", help="The owner or purpose.")]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPES",
        help=f"Allowed actions, separated by commas: {', '.join(SCOPES)}.",
    ),
]
Pipelines = Annotated[
    list[str],
    typer.Option(
        "--pipeline",
        metavar="PIPELINES",
        help="Uids or names of pipelines, separated by commas; '*' for all.",
    ),
]
Expires = Annotated[str, typer.Option(metavar="TIME", help="Lifetime: 30m, 12h, 90d, or never.")]
AllowUndeployed = Annotated[
    bool,
    typer.Option(
        "--allow-undeployed", help="Accept the uids of pipelines that are deployed later."
    ),
]
IfNone = Annotated[
    bool,
    typer.Option(
        "--if-none", help="Create the key only if none was ever created; else print nothing."
    ),
]
Ident = Annotated[str, typer.Argument(metavar="ID", help="The id from `memrelay keys ls`.")]


def create(
    name: Name,
    *,
    scope: Scopes,
    pipeline: Pipelines,
    expires: Expires = NEVER,
    allow_undeployed: AllowUndeployed = False,
    if_none: IfNone = False,
    as_json: Json = False,
) -> None:
    """Create a key and print it. It cannot be shown again, because only its hash is stored."""
    request = KeyRequest(name, _split(scope), _split(pipeline), expires, allow_undeployed)

    async def command(settings: Settings) -> None:
        # Opening the catalog creates it.
        raise_faults(find_faults(request))
        now_ms = _now_ms()
        is_new_root = not catalog_exists(settings.memory.root, settings.storage.url)
        async with make_catalog(settings) as catalog:
            try:
                created = await create_key(catalog, request, now_ms, only_first=if_none)
            except KeysExist:
                return
            notes = list_notes(created, await catalog.active())
        if as_json:
            print_json({"key": created.text} | to_json(created.key, now_ms))
        else:
            print_line(created.text)
        if is_new_root:
            note(
                f"nothing was stored in {settings.memory.root} before; a server with another "
                "memory.root does not know this key"
            )
        for one in notes:
            note(one)

    run(command)


def ls(*, as_json: Json = False) -> None:
    """List all keys, also revoked ones: a table on a terminal, otherwise JSON lines."""

    async def command(settings: Settings) -> None:
        now_ms = _now_ms()
        async with open_catalog(settings) as catalog:
            listed = await catalog.keys.every()
        heading = "ID", "NAME", "SCOPES", "PIPELINES", "CREATED", "CONDITION"
        nothing = "No key exists: HTTP serves every program on this machine, and no other machine."
        rows = [heading, *[_make_row(key, now_ms) for key in listed]]
        print_list((to_json(key, now_ms) for key in listed), rows, nothing, as_json=as_json)

    run(command)


def revoke(ident: Ident, *, as_json: JsonAnyway = False) -> None:
    """Revoke a key. Within a second, it and its sessions are rejected."""

    async def command(settings: Settings) -> None:
        async with open_catalog(settings) as catalog:
            if not await catalog.keys.revoke(ident, _now_ms()):
                fail(f"no key {ident!r}; list the ids with `memrelay keys ls`")
            valid = [key for key in await catalog.keys.every() if not key.fault(_now_ms())]
        print_json({"revoked": ident})
        if not valid:
            note(
                "no valid key is left: HTTP accepts only webhooks with their own secret; create a "
                "key with `memrelay keys create`"
            )

    run(command)


keys = [create, ls, revoke]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _split(texts: list[str]) -> list[str]:
    return [one.strip() for text in texts for one in text.split(",") if one.strip()]


def _make_row(key: Key, now_ms: int) -> tuple[str, ...]:
    valid = "valid" if key.expires_at is None else f"valid until {moment(key.expires_at)}"
    granted = f" (granted by {key.parent})" if key.parent else ""
    return (
        key.id,
        key.name + granted,
        ",".join(sorted(key.scopes)),
        ",".join(sorted(key.pipelines)),
        moment(key.created_at),
        key.fault(now_ms) or valid,
    )
