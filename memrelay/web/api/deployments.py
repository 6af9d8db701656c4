"""Deploying, rolling back, and removing pipelines.

The catalog is changed first. Then the workers are notified.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusError
from memrelay.bus.keys import CHANGES, all_cells, find_cell
from memrelay.bus.lease.workers import wait_until_served
from memrelay.memory.control.catalog import Catalog, Deployed, DeployResult
from memrelay.memory.control.precondition import ANYTHING, NOTHING, Precondition, over
from memrelay.memory.errors import PreconditionNotMet
from memrelay.pipelines.check import CheckedBundle, check
from memrelay.pipelines.checked import BundleRefused
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.report import Fault
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.server.errors import Unavailable

# Checks of bundles that may wait or run, in total and of one caller.
MAX_CHECKS, MAX_CALLER_CHECKS = 32, 4
# How long a deploy waits for a worker to report the new version.
SERVED_TIMEOUT_S = 5.0


class NoSuchVersion(LookupError):
    """The version to roll back to does not exist. The text lists the existing versions."""


class Deployments:
    """Changes which pipelines are active.

    Notified workers react at once, others at their next poll. `line` is None without a bus: the
    change is stored all the same. `secrets` checks the references of an earlier bundle.
    """

    def __init__(
        self, catalog: Catalog, line: ReconnectingConnection | None, secrets: SecretResolver
    ) -> None:
        self._catalog, self._line, self._secrets = catalog, line, secrets

    async def deploy(
        self, bundle: CheckedBundle, expected: Precondition = ANYTHING
    ) -> DeployResult:
        """Activate a bundle for its pipeline.

        Raises PreconditionNotMet and StoreBusy. Raises BundleRefused if it needs two cells of a
        cluster.
        """
        if faults := _find_other_cells(bundle):
            raise BundleRefused(faults)
        now_ms = time.time_ns() // 1_000_000
        swapped = await self._catalog.deploy(
            bundle.uid, bundle.name, bundle.hash, bundle.source, now_ms, expected=expected
        )
        await self._notify_workers("deployed")
        return swapped

    async def rollback(
        self,
        uid: str,
        version: int | None,
        expected: Precondition = ANYTHING,
        *,
        allow: Callable[[CheckedBundle], None] | None = None,
    ) -> DeployResult:
        """Deploy the bundle of an earlier version again, as a new version.

        Without `version`, this takes the latest version with another bundle. `allow` raises if the
        caller may not deploy the bundle.

        Raises NoSuchVersion, PreconditionNotMet, and StoreBusy. Raises BundleRefused if this
        release does not accept the bundle.
        """
        versions = await self._catalog.versions(uid)
        target = _find_version(versions, uid, version)
        if target is None:
            target, expected = await self._find_previous(versions, uid, expected)
        source = await self._catalog.source(target.hash)
        if source is None:
            raise NoSuchVersion(
                f"the bundle of version {target.version} is missing in system.db; deploy it from "
                "a file"
            )
        checked = await asyncio.to_thread(check, source, uid=uid, secrets=self._secrets)
        bundle = checked.accepted()
        if allow is not None:
            allow(bundle)
        return await self.deploy(bundle, expected)

    async def _find_previous(
        self, versions: list[Deployed], uid: str, expected: Precondition
    ) -> tuple[Deployed, Precondition]:
        """Return the version before the active one, and a condition that the active one stays."""
        serving = await self._catalog.serving(uid)
        active = serving.hash if serving is not None else None
        if not expected.allows(active):
            raise PreconditionNotMet(uid, active or "")
        other = next((one for one in versions if one.hash != active), None)
        if other is None:
            raise NoSuchVersion(f"pipeline {uid} has no earlier bundle to roll back to")
        return other, NOTHING if active is None else over(active)

    async def remove(self, uid: str, expected: Precondition = ANYTHING) -> bool:
        """Deactivate a pipeline and return whether it was active. Its records remain.

        Raises PreconditionNotMet and StoreBusy.
        """
        removed = await self._catalog.remove(uid, expected)
        if removed:
            await self._notify_workers("removed")
        return removed

    async def is_served(self, deployed: Deployed) -> bool:
        """Return whether a worker serves this version. Waits a few seconds if a worker runs."""
        if self._line is None:
            return False
        try:
            return await wait_until_served(
                self._line, deployed.uid, deployed.hash, SERVED_TIMEOUT_S
            )
        except BusError:
            return False

    async def _notify_workers(self, change: str) -> None:
        if self._line is None:
            return
        try:
            await self._line.call("PUBLISH", CHANGES, change)
        except BusError:
            return


def _find_other_cells(bundle: CheckedBundle) -> list[Fault]:
    """Return a fault for each thing that other cells of the cluster have (memrelay/bus/keys.py)."""
    if len(all_cells()) == 1:
        return []
    here, faults = find_cell(bundle.uid), []
    for swarm in bundle.public:
        rule = f"the public swarm {swarm!r} needs a bus with one cell; set bus.cells to 1"
        faults.append(Fault("/swarms", rule))
    for store in Plan(bundle).all_stores:
        folder, owner, *_ = [*store.split("/"), ""]
        if find_cell(owner if folder == "instances" else store) != here:
            rule = f"the store {store!r} belongs to another cell of the cluster"
            faults.append(Fault("", rule, "deploy the bundle under another uid, or share no store"))
    return faults


def _find_version(versions: list[Deployed], uid: str, version: int | None) -> Deployed | None:
    """Return the version with this number, or None if `version` is None. Raises NoSuchVersion."""
    if not versions:
        raise NoSuchVersion(f"no pipeline {uid[:100]!r} was ever deployed")
    if version is None:
        return None
    found = next((one for one in versions if one.version == version), None)
    if found is None:
        raise NoSuchVersion(
            f"pipeline {uid} has no version {version}; it has versions {versions[-1].version} to "
            f"{versions[0].version}"
        )
    return found


class BundleChecks:
    """Gives each check of a bundle a turn, because an expensive one takes half a second.

    A caller is the id of a key. Without keys it is "", which all local programs share, so it may
    have all checks.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._counts: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Run the block when no other check runs. Raises Unavailable if too many checks wait."""
        most = MAX_CALLER_CHECKS if caller else MAX_CHECKS
        if self._counts.total() >= MAX_CHECKS or self._counts[caller] >= most:
            raise Unavailable("too many bundles are being checked; retry in a second")
        self._counts[caller] += 1
        try:
            async with self._turn:
                yield
        finally:
            self._counts[caller] -= 1
            if not self._counts[caller]:
                del self._counts[caller]
