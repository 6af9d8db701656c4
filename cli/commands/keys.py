"""`memrelay keys`: makes, lists and revokes the keys that HTTP asks for."""

import re
import sys
import time
from typing import Annotated, Any

import typer

from memrelay.bus.keys import UID
from memrelay.cli.composition import fail, note, run, stored_catalog
from memrelay.cli.options import Json, JsonAnyway
from memrelay.cli.settings import Settings
from memrelay.cli.terminal.output import print_json, print_line
from memrelay.cli.terminal.readable import moment, table
from memrelay.memory.control.catalog import Catalog, is_begun
from memrelay.memory.control.keys import ALL, SCOPES, Key

LASTS = re.compile(r"([1-9][0-9]{0,5})([mhd])")
SECONDS = {"m": 60, "h": 3600, "d": 86_400}
LONGEST_NAME = 100

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose it is, or what for.", show_default=False)
]
Scopes = Annotated[
    list[str],
    typer.Option(
        "--scope",
        metavar="SCOPES",
        help=f"What it may do, with commas between: {', '.join(SCOPES)}.",
        show_default=False,
    ),
]
Pipelines = Annotated[
    list[str],
    typer.Option(
        "--pipeline",
        metavar="PIPELINES",
        show_default=False,
        help="In which pipelines, by uid or name, with commas between; '*' for all.",
    ),
]
Expires = Annotated[
    str, typer.Option(metavar="TIME", help="For how long: 30m, 12h, 90d, or never.")
]
Ident = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Its id, which `memrelay keys ls` prints.", show_default=False
    ),
]


def create(
    name: Name,
    *,
    scope: Scopes,
    pipeline: Pipelines,
    expires: Expires = "never",
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once, and only its hash is kept."""
    scopes, wanted, lasts_ms = _scopes(scope), _split(pipeline), _lasts_ms(expires)
    if not name.strip() or len(name) > LONGEST_NAME:
        fail(f"a key's name has 1 to {LONGEST_NAME} characters")

    async def command(settings: Settings) -> None:
        now_ms, is_new = _now_ms(), not is_begun(settings.memory.root)
        async with Catalog(settings.memory.root) as catalog:
            uids = await _uids(catalog, wanted)
            is_first = not await catalog.keys.every()
            key, secret = await catalog.keys.create(
                name.strip(),
                scopes,
                uids,
                None if lasts_ms is None else now_ms + lasts_ms,
                now_ms=now_ms,
            )
        if as_json:
            print_json({"key": secret} | _as_json(key, now_ms))
        else:
            print_line(secret)
        if is_new:
            note(
                f"nothing was stored in {settings.memory.root} before; a server with another memory.root knows no such key"
            )
        note("this is shown once; send it as Authorization: Bearer KEY")
        if is_first:
            note(
                "from now on HTTP needs a key, on this machine too, and stays so when all are revoked"
            )

    run(command)


def ls(*, as_json: Json = False) -> None:
    """List the keys that were ever made: a table on a terminal, else a JSON line each."""

    async def command(settings: Settings) -> None:
        now_ms = _now_ms()
        async with stored_catalog(settings) as catalog:
            everything = await catalog.keys.every()
        if as_json or not sys.stdout.isatty():
            for key in everything:
                print_json(_as_json(key, now_ms))
            return
        if not everything:
            print_line(
                "No key was ever made: HTTP serves every program on this machine, and nobody else."
            )
            return
        rows = [
            (
                key.id,
                key.name,
                ",".join(sorted(key.scopes)),
                ",".join(sorted(key.pipelines)),
                moment(key.created_at),
                _condition(key, now_ms),
            )
            for key in everything
        ]
        for line in table([("ID", "NAME", "SCOPES", "PIPELINES", "CREATED", "CONDITION"), *rows]):
            print_line(line)

    run(command)


def revoke(ident: Ident, *, as_json: JsonAnyway = False) -> None:
    """Revoke a key: within a second it opens nothing any more, and sessions that began with it are
    over."""

    async def command(settings: Settings) -> None:
        async with stored_catalog(settings) as catalog:
            if not await catalog.keys.revoke(ident, _now_ms()):
                fail(f"no key {ident!r}; `memrelay keys ls` lists them by id")
            left = [key for key in await catalog.keys.every() if not key.fault(_now_ms())]
        print_json({"revoked": ident})
        if not left:
            note(
                "no key is in force now: HTTP takes nobody but webhooks with a secret of their own; `memrelay keys create` "
                "makes another"
            )

    run(command)


keys = [create, ls, revoke]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _split(given: list[str]) -> list[str]:
    return [one.strip() for text in given for one in text.split(",") if one.strip()]


def _scopes(given: list[str]) -> list[str]:
    scopes = _split(given)
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        fail(
            f"{f'no scope {unknown[0]!r}' if unknown else 'a key needs a scope'}; there are {', '.join(SCOPES)}"
        )
    return scopes


def _lasts_ms(given: str) -> int | None:
    if given == "never":
        return None
    match = LASTS.fullmatch(given)
    if match is None:
        fail(f"--expires takes a number with m, h or d behind it (90d), or never; not {given!r}")
    return int(match[1]) * SECONDS[match[2]] * 1000


async def _uids(catalog: Catalog, wanted: list[str]) -> list[str]:
    """Uids of pipelines in service, and of such as may come; or ALL alone."""
    if ALL in wanted:
        return [ALL]
    found = []
    for name in wanted:
        deployed = await catalog.find(name)
        if deployed is None and not UID.fullmatch(name):
            fail(f"no pipeline {name!r}, and it is no uid; `memrelay ls` lists those in service")
        if deployed is None:
            note(f"no pipeline {name} is in service yet; the key is good for one with that uid")
        found.append(name if deployed is None else deployed.uid)
    return found or fail("a key needs a pipeline, or '*' for all")


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


def _condition(key: Key, now_ms: int) -> str:
    return key.fault(now_ms) or (
        "in force" if key.expires_at is None else f"in force until {moment(key.expires_at)}"
    )
