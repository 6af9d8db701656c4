"""`memrelay check FILE`: what a deploy would say, without doing it."""

from memrelay.cli.composition import settled
from memrelay.cli.deployment import read_bundle
from memrelay.cli.options import BundleFile, JsonAnyway
from memrelay.cli.terminal.output import print_json


def check(file: BundleFile, *, as_json: JsonAnyway = False) -> None:
    """Check a bundle without deploying it; prints every fault and warning at once."""
    checked = settled(lambda _: read_bundle(file, None))
    bundle = checked.bundle
    assert bundle is not None
    print_json(
        {
            "ok": True,
            "name": bundle.name,
            "agents": len(bundle.agents),
            "warnings": len(checked.warnings),
        }
    )
