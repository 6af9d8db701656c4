"""Whether the server lets its user do all that Memrelay does there."""

import sqlite3
from collections.abc import Iterable

from bus.errors import BusRefused
from bus.rights import Refused, own_rights, refused_of
from cli.doctor.finding import Finding, Patient, fault, ok, some_of
from cli.doctor.service import deployed_in
from memory.errors import MemoryFault

RENAMED = "undo rename-command in its configuration file, or take a server that has it"


async def check_rights(patient: Patient) -> list[Finding]:
    """One that is missing keeps a worker from serving anything, whichever it is."""
    try:
        uids = [one.uid for one in await deployed_in(patient.settings)]
    except (MemoryFault, sqlite3.Error):
        uids = []  # told by another check
    try:
        refused = await refused_of(patient.line, *uids[:1])
    except BusRefused as error:
        return [
            fault(
                "rights",
                f"the server refuses scripts: {error}",
                _let() if error.code == "NOPERM" else RENAMED,
            )
        ]
    unknown = [one for one in refused if one.unknown]
    if unknown:
        return [fault("rights", f"the server has no {_named(unknown)}", RENAMED)]
    if refused:
        return [fault("rights", f"this user may not do {_named(refused)}", _let())]
    return [ok("rights", "this user may do all that is needed")]


def _named(refused: Iterable[Refused]) -> str:
    return some_of(list(dict.fromkeys(one.command for one in refused)))


def _let() -> str:
    return f"an administrator of the server lets it: ACL SETUSER NAME {' '.join(own_rights())}"
