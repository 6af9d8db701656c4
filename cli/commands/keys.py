"""`memrelay keys`: create, list and revoke API keys for HTTP."""

import re
import sys
import time
from typing import Annotated, Any

import typer

from memrelay.bus.keys import UID
from memrelay.cli.composition import fail, note, open_catalog, run
from memrelay.cli.options import Json, JsonAnyway
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table
from memrelay.memory.control.catalog import Catalog, is_begun
from memrelay.memory.control.keys import ALL, SCOPES, Key

DURATION = re.compile(r"([1-9][0-9]{0,5})([mhd])")
SECONDS = {"m": 60, "h": 3600, "d": 86_400}
LONGEST_NAME = 100

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The owner or purpose.", show_default=False)
]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPES",
        help=f"Allowed actions, separated by commas: {', '.join(SCOPES)}.",
        show_default=False,
    ),
]
Pipelines = Annotated[
    list[str],
    typer.Option(
        "--pipeline",
        metavar="PIPELINES",
        show_default=False,
        help="Uids or names of pipelines, separated by commas; '*' for all.",
    ),
]
Expires = Annotated[str, typer.Option(metavar="TIME", help="Lifetime: 30m, 12h, 90d, or never.")]
Ident = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id from `memrelay keys ls`.", show_default=False),
]


def create(
    name: Name,
    *,
    scope: Scopes,
    pipeline: Pipelines,
    expires: Expires = "never",
    as_json: Json = False,
) -> None:
    """Create a key and print it. It cannot be shown again, because only its hash is stored."""
    scopes, wanted, lifetime_ms = _parse_scopes(scope), _split(pipeline), _parse_lifetime(expires)
    if not name.strip() or len(name) > LONGEST_NAME:
        fail(f"the name of a key must have 1 to {LONGEST_NAME} characters")

    async def command(settings: Settings) -> None:
        now_ms, is_new_root = _now_ms(), not is_begun(settings.memory.root)
        expires_at = None if lifetime_ms is None else now_ms + lifetime_ms
        async with Catalog(settings.memory.root) as catalog:
            uids = await _find_uids(catalog, wanted)
            is_first = not await catalog.keys.every()
            key, secret = await catalog.keys.create(
                name.strip(), scopes, uids, expires_at, now_ms=now_ms
            )
        if as_json:
            print_json({"key": secret} | _as_json(key, now_ms))
        else:
            print_line(secret)
        if is_new_root:
            note(
                f"nothing was stored in {settings.memory.root} before; a server with another "
                "memory.root does not know this key"
            )
        _print_notes(is_first)

    run(command)


def _print_notes(is_first: bool) -> None:
    note("this key is not shown again; send it as Authorization: Bearer KEY")
    if is_first:
        note(
            "HTTP now requires a key, also on this machine, and still does after all keys are "
            "revoked"
        )


def ls(*, as_json: Json = False) -> None:
    """List all keys, also revoked ones: a table on a terminal, otherwise JSON lines."""

    async def command(settings: Settings) -> None:
        now_ms = _now_ms()
        async with open_catalog(settings) as catalog:
            found = await catalog.keys.every()
        if as_json or not sys.stdout.isatty():
            for key in found:
                print_json(_as_json(key, now_ms))
        elif found:
            _print_table(found, now_ms)
        else:
            print_line(
                "No key exists: HTTP serves every program on this machine, and no other machine."
            )

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


def _split(given: list[str]) -> list[str]:
    return [one.strip() for text in given for one in text.split(",") if one.strip()]


def _parse_scopes(given: list[str]) -> list[str]:
    scopes = _split(given)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        problem = f"unknown scope {unknown[0]!r}" if unknown else "a key needs a scope"
        fail(f"{problem}; choose from {', '.join(SCOPES)}")
    return scopes


def _parse_lifetime(given: str) -> int | None:
    """Return the lifetime in ms, or None for `never`."""
    if given == "never":
        return None
    match = DURATION.fullmatch(given)
    if match is None:
        fail(f"--expires must be a number with m, h or d, such as 90d, or never; not {given!r}")
    return int(match[1]) * SECONDS[match[2]] * 1000


async def _find_uids(catalog: Catalog, wanted: list[str]) -> list[str]:
    """Return uids of active pipelines and of future ones, or only ALL."""
    if ALL in wanted:
        return [ALL]
    uids = []
    for name in wanted:
        deployed = await catalog.find(name)
        if deployed is None and not UID.fullmatch(name):
            fail(f"no pipeline {name!r}, and it is not a uid; list them with `memrelay ls`")
        if deployed is None:
            note(f"no pipeline {name} is active yet; the key works when one with this uid is")
        uids.append(name if deployed is None else deployed.uid)
    return uids or fail("a key needs a pipeline, or '*' for all")


def _as_json(key: Key, now_ms: int) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "pipelines": sorted(key.pipelines),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "in_force": not key.fault(now_ms),
    }


def _print_table(found: list[Key], now_ms: int) -> None:
    rows = [
        (
            key.id,
            key.name,
            ",".join(sorted(key.scopes)),
            ",".join(sorted(key.pipelines)),
            moment(key.created_at),
            _condition(key, now_ms),
        )
        for key in found
    ]
    for line in table([("ID", "NAME", "SCOPES", "PIPELINES", "CREATED", "CONDITION"), *rows]):
        print_line(line)


def _condition(key: Key, now_ms: int) -> str:
    return key.fault(now_ms) or (
        "valid" if key.expires_at is None else f"valid until {moment(key.expires_at)}"
    )
