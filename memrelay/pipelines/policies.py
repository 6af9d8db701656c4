"""The checks of `policies` in a bundle, besides the shape of each."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from memrelay.pipelines.report import Report, quoted

if TYPE_CHECKING:
    from memrelay.pipelines.bundle import StoreSpec

# Actions after which the found text must not stay elsewhere.
HIDING = ("redact", "refuse", "drop")


def check_policies(
    stores: Mapping[int, "StoreSpec"], named: Collection[str], report: Report
) -> None:
    """Report names that a store has twice, and stores that keep what another one hides.

    `named` are the stores of the agents.
    """
    hiding = list[tuple[int, str]]()
    for at, store in stores.items():
        first: dict[str, int] = {}
        for number, policy in enumerate(store.policies):
            name = policy["name"]
            if name in first:
                rule = f"policies[{first[name]}] already has the name {quoted(name)}"
                report.error(("stores", at, "policies", number, "name"), rule, "choose another")
            first.setdefault(name, number)
        if any(map(_hides, store.policies)):
            hiding.append((at, store.memory_id))
    covered = {memory_id for _, memory_id in hiding}
    for memory_id in sorted({name for name in named if name} - covered if hiding else ()):
        at, _ = hiding[0]
        report.warn(
            ("stores", at, "policies"),
            f"the store {quoted(memory_id)} of the same pipeline has no policy that finds texts, "
            "so it keeps what this one redacts or refuses",
            "give it the same policies",
        )


def _hides(policy: Mapping[str, Any]) -> bool:
    """Return whether a policy keeps found texts out of a store."""
    return policy["action"] in HIDING and "find" in policy.get("match", ())
