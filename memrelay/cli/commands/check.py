"""`memrelay check FILE`: the checks of a deploy, without the deploy."""

from memrelay.cli.composition import run_with_settings
from memrelay.cli.deployment import read_bundle
from memrelay.cli.options import BundleFile, JsonAnyway
from memrelay.cli.terminal.output import print_json


def check(file: BundleFile, *, as_json: JsonAnyway = False) -> None:
    """Check a bundle without deploying it. Print all faults and warnings."""
    checked = run_with_settings(lambda settings: read_bundle(settings, file, None))
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
