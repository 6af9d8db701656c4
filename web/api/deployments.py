"""Deploying, rolling back and removing pipelines: the catalogue first, then word to the workers,
then what they say."""

import asyncio
import time
from collections.abc import Callable

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.bus.keys import CHANGES
from memrelay.bus.lease.workers import wait_until_served
from memrelay.memory.control.catalog import Catalog, Deployed, Swapped
from memrelay.memory.control.precondition import ANYTHING, NOTHING, Precondition, over
from memrelay.memory.errors import NotAsExpected
from memrelay.pipelines.check import CheckedBundle, check

SERVED_WITHIN_S = 5.0  # how long a deploy waits for a worker to say that it serves the new version


class NoSuchVersion(LookupError):
    """There is nothing to go back to; the text says what there is."""


class Deployments:
    """Changes what is in service. Workers that hear of it act at once, others when they look
    again."""

    def __init__(self, catalog: Catalog, line: ReconnectingConnection | None) -> None:
        """Without a bus there is nobody to tell, and the change stands all the same."""
        self._catalog, self._line = catalog, line

    async def deploy(self, bundle: CheckedBundle, expected: Precondition = ANYTHING) -> Swapped:
        """Makes a bundle the active one of its pipeline. Raises NotAsExpected and StoreBusy."""
        now_ms = time.time_ns() // 1_000_000
        swapped = await self._catalog.deploy(
            bundle.uid, bundle.name, bundle.hash, bundle.source, now_ms, expected=expected
        )
        await self._announce("deployed")
        return swapped

    async def rollback(
        self,
        uid: str,
        version: int | None,
        expected: Precondition = ANYTHING,
        *,
        allow: Callable[[CheckedBundle], None] | None = None,
    ) -> Swapped:
        """Deploys an earlier version's bundle again, as a new version; without one, that of the
        last other bundle.

        `allow` raises where the caller may not deploy that bundle.
        Raises NoSuchVersion, BundleRefused where this program does not accept it any more,
        NotAsExpected and StoreBusy.
        """
        versions = await self._catalog.versions(uid)
        target = _named(versions, uid, version)
        if target is None:
            target, expected = await self._before(versions, uid, expected)
        source = await self._catalog.source(target.hash)
        if source is None:
            raise NoSuchVersion(
                f"the bundle of version {target.version} is gone from system.db; deploy it from a file"
            )
        checked = await asyncio.to_thread(check, source, uid=uid)
        bundle = checked.accepted()
        if allow is not None:
            allow(bundle)
        return await self.deploy(bundle, expected)

    async def _before(
        self, versions: list[Deployed], uid: str, expected: Precondition
    ) -> tuple[Deployed, Precondition]:
        """The version before the active one, which may not change meanwhile: else it would be
        another one's before."""
        serving = await self._catalog.serving(uid)
        active = serving.hash if serving is not None else None
        if not expected.allows(active):
            raise NotAsExpected(uid, active or "")
        other = next((one for one in versions if one.hash != active), None)
        if other is None:
            raise NoSuchVersion(
                f"pipeline {uid} has had one bundle only: there is none to go back to"
            )
        return other, NOTHING if active is None else over(active)

    async def remove(self, uid: str, expected: Precondition = ANYTHING) -> bool:
        """Takes a pipeline out of service, and says whether there was one; its records stay.

        Raises NotAsExpected and StoreBusy.
        """
        removed = await self._catalog.remove(uid, expected)
        if removed:
            await self._announce("removed")
        return removed

    async def is_served(self, deployed: Deployed) -> bool:
        """Whether a worker says that it serves this version; waits a few seconds for it where any
        worker lives."""
        if self._line is None:
            return False
        try:
            return await wait_until_served(self._line, deployed.uid, deployed.hash, SERVED_WITHIN_S)
        except BusError:
            return False

    async def _announce(self, what: str) -> None:
        if self._line is None:
            return
        try:
            await self._line.call("PUBLISH", CHANGES, what)
        except BusError:
            return


def _named(versions: list[Deployed], uid: str, version: int | None) -> Deployed | None:
    """The version of that number; None where none is named. Raises NoSuchVersion."""
    if not versions:
        raise NoSuchVersion(f"no pipeline {uid[:100]!r} was ever in service")
    if version is None:
        return None
    found = next((one for one in versions if one.version == version), None)
    if found is None:
        raise NoSuchVersion(
            f"pipeline {uid} has no version {version}; it has {versions[-1].version} to {versions[0].version}"
        )
    return found
