"""Who reads the inputs of pipelines beside their owners: what they take is done late."""

import asyncio
import sqlite3
from collections.abc import Awaitable
from typing import Any

from bus.errors import BusRefused
from bus.resp import pack
from bus.wire import GROUP, input_key
from cli.doctor.finding import Finding, Patient, some_of, warning
from cli.doctor.service import deployed_in
from memory.errors import MemoryFault
from worker.ownership import LEASE


async def check_readers(patient: Patient) -> list[Finding]:
    """Consumers in the owner's group that are no workers."""
    try:
        keys = [input_key(one.uid) for one in await deployed_in(patient.settings)]
    except (MemoryFault, sqlite3.Error):
        return []  # told by another check
    connection = await patient.line.open()
    asked = [connection.send(pack("XINFO", "CONSUMERS", key, GROUP)) for key in keys]
    named = await asyncio.gather(*map(_names, asked))
    found = [
        f"{', '.join(strangers)} (of {key})"
        for key, names in zip(keys, named, strict=True)
        if (strangers := [name for name in names if not LEASE.fullmatch(name)])
    ]
    if not found:
        return []
    return [
        warning(
            "readers",
            f"other programs read inputs by the consumer group `{GROUP}`: {some_of(found)}; what they take "
            "is done some seconds late",
            "let them read by a group of their own, then XGROUP DELCONSUMER",
        )
    ]


async def _names(asked: Awaitable[Any]) -> list[str]:
    try:
        return [
            dict(zip(words[::2], words[1::2], strict=True))[b"name"].decode(errors="replace")
            for words in await asked
        ]
    except BusRefused:  # no input yet, or none that is one, as told by another check
        return []
