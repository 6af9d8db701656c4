"""Create keys by request: the command line and HTTP validate, limit and show keys in the same way.

A caller over HTTP gives a new key at most its own scopes, pipelines and lifetime.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from memrelay.memory.control.catalog import Catalog, Deployed
from memrelay.memory.control.keys import ALL, SCOPES, CreatedKey, Key, NewKey
from memrelay.memory.engine.timestamps import LAST_MS, format_time
from memrelay.memory.errors import Fault, InvalidInput, MemoryFault

MAX_NAME_CHARACTERS = 100
NEVER = "never"
LIFETIME = re.compile(r"([1-9][0-9]{0,5})([mhd])")
UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
# A uid, also of a pipeline that is not deployed yet.
UID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Deployed pipelines that an error lists.
MAX_LISTED = 10
SHOWN_ONCE = "this key is not shown again; send it as Authorization: Bearer KEY"
CLOSES_HTTP = (
    "HTTP now requires a key, also on this machine, and still does after all keys are revoked"
)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """The wish for a new key, from the command line or HTTP."""

    name: str
    """The owner or purpose."""
    scopes: Sequence[str]
    """The allowed actions, from SCOPES."""
    pipelines: Sequence[str]
    """Uids or unique names of deployed pipelines, or ALL."""
    expires: str | None = None
    """Lifetime such as 90d, or `never`. By default, that of the creator's key."""
    allow_undeployed: bool = False
    """Also accept the uids of pipelines that are not deployed yet."""


class Creator(NamedTuple):
    """The limits of a caller over HTTP for a new key. `expires_at` is Unix ms, None for never.

    Without a key, it may create only the first one.
    """

    scopes: frozenset[str]
    pipelines: frozenset[str]
    expires_at: int | None
    has_key: bool


class ExceedsCreator(MemoryFault):
    """The new key would allow more than its creator may do. `pointer` is the field in question."""

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(message)
        self.pointer = pointer


async def create_key(
    catalog: Catalog,
    request: KeyRequest,
    now_ms: int,
    creator: Creator | None = None,
    *,
    only_first: bool = False,
) -> CreatedKey:
    """Create a key. Without `creator`, it has no limits: the operator at the command line.

    `only_first` refuses with KeysExist if a key was ever created.

    Raises InvalidInput with all faults of the request, ExceedsCreator, KeysExist, and StoreBusy.
    """
    uids, faults = _find_pipelines(request, await catalog.active())
    raise_faults([*find_faults(request), *faults])
    expires_at = _find_expiry(request.expires, now_ms)
    new = NewKey(request.name.strip(), request.scopes, uids, expires_at)
    if creator is None:
        return await catalog.keys.create(new, now_ms=now_ms, only_first=only_first)
    if request.expires is None:
        new = new._replace(expires_at=creator.expires_at)
    _check_limits(new, creator)
    return await catalog.keys.create(
        new, now_ms=now_ms, only_first=only_first or not creator.has_key
    )


def list_notes(created: CreatedKey, active: Sequence[Deployed]) -> list[str]:
    """Return what the creator must know about the new key. `active` are the deployed pipelines."""
    undeployed = created.key.pipelines - {ALL, *(one.uid for one in active)}
    notes = [SHOWN_ONCE]
    if undeployed:
        notes.append(
            f"not deployed yet: {', '.join(sorted(undeployed))}; the key reaches a pipeline as "
            "soon as one with this uid is deployed"
        )
    return [*notes, CLOSES_HTTP] if created.is_first else notes


def to_json(key: Key, now_ms: int) -> dict[str, Any]:
    """Return a key as the list of keys shows it, without its secret. A time is null for never."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": sorted(key.scopes),
        "pipelines": sorted(key.pipelines),
        "created_at": format_time(key.created_at),
        "expires_at": _format_optional(key.expires_at),
        "revoked_at": _format_optional(key.revoked_at),
        "in_force": not key.fault(now_ms),
        "parent": key.parent or None,
        "client": key.client or None,
    }


def _format_optional(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_time(at_ms)


def find_faults(request: KeyRequest) -> list[Fault]:
    """Return the faults that are visible without the catalog."""
    faults = []
    if not request.name.strip() or len(request.name) > MAX_NAME_CHARACTERS:
        rule = f"the name of a key must have 1 to {MAX_NAME_CHARACTERS} characters"
        faults.append(Fault("/name", "invalid_name", rule))
    if not request.scopes:
        rule = f"a key needs a scope; choose from {', '.join(SCOPES)}"
        faults.append(Fault("/scopes", "missing_scope", rule))
    for index, scope in enumerate(request.scopes):
        if scope not in SCOPES:
            rule = f"unknown scope {scope[:50]!r}; choose from {', '.join(SCOPES)}"
            faults.append(Fault(f"/scopes/{index}", "unknown_scope", rule))
    if not request.pipelines:
        rule = f"a key needs a pipeline, or {ALL!r} for all"
        faults.append(Fault("/pipelines", "missing_pipeline", rule))
    if request.expires not in (None, NEVER) and not LIFETIME.fullmatch(request.expires):
        rule = (
            "the lifetime must be a number with m, h or d, such as 90d, or never; "
            f"not {request.expires[:50]!r}"
        )
        faults.append(Fault("/expires", "invalid_lifetime", rule))
    return faults


def raise_faults(faults: Sequence[Fault]) -> None:
    """Raise InvalidInput if there are faults."""
    if faults:
        raise InvalidInput("; ".join(one.message for one in faults), faults)


def _find_expiry(expires: str | None, now_ms: int) -> int | None:
    """Return the end of a valid lifetime in Unix ms, None for never."""
    match = LIFETIME.fullmatch(expires or NEVER)
    return None if match is None else now_ms + int(match[1]) * UNIT_MS[match[2]]


def _find_pipelines(
    request: KeyRequest, active: Sequence[Deployed]
) -> tuple[list[str], list[Fault]]:
    """Return the uids of the requested pipelines, and the faults of those that are not deployed."""
    if ALL in request.pipelines:
        return [ALL], []
    uids, faults = list[str](), list[Fault]()
    for index, name in enumerate(request.pipelines):
        named = [one.uid for one in active if one.name == name]
        if any(one.uid == name for one in active):
            uids.append(name)
        elif len(named) == 1:
            uids += named
        elif not named and request.allow_undeployed and UID.fullmatch(name):
            uids.append(name)
        else:
            rule = _describe_unknown(request, active, name, named)
            faults.append(Fault(f"/pipelines/{index}", "unknown_pipeline", rule))
    return uids, faults


def _describe_unknown(
    request: KeyRequest, active: Sequence[Deployed], name: str, named: Sequence[str]
) -> str:
    """Return why a name is not that of one pipeline. `named` are the uids with this name."""
    if named:
        return f"several pipelines have the name {name!r}; choose a uid: {', '.join(named)}"
    if request.allow_undeployed:
        return f"no pipeline {name[:100]!r} is deployed, and it is not a uid"
    listed = ", ".join(f"{one.name} ({one.uid})" for one in active[:MAX_LISTED])
    more = f" and {len(active) - MAX_LISTED} more" if active[MAX_LISTED:] else ""
    return (
        f"no pipeline {name[:100]!r} is deployed; choose from {listed or 'none'}{more}, deploy "
        "it first, or allow a uid that is deployed later with --allow-undeployed "
        '(over HTTP "allow_undeployed": true)'
    )


def _check_limits(new: NewKey, creator: Creator) -> None:
    """Check that a new key allows at most what its creator may do. Raises ExceedsCreator."""
    if surplus := frozenset(new.scopes) - creator.scopes:
        raise ExceedsCreator(
            "/scopes",
            f"a new key has at most your scopes: you lack {', '.join(sorted(surplus))}; choose "
            f"from {', '.join(sorted(creator.scopes))}",
        )
    if ALL not in creator.pipelines and not creator.pipelines.issuperset(new.pipelines):
        raise ExceedsCreator(
            "/pipelines",
            "a new key has at most your pipelines; choose from "
            f"{', '.join(sorted(creator.pipelines))}",
        )
    if creator.expires_at is not None and (new.expires_at or LAST_MS) > creator.expires_at:
        raise ExceedsCreator(
            "/expires",
            f"a new key expires no later than yours, at {format_time(creator.expires_at)}; choose "
            "a shorter lifetime, or omit it",
        )
