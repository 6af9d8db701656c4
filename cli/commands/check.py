"""`memrelay check FILE`: what a deploy would say, without doing it."""
from pathlib import Path

from cli.composition import print_json
from cli.deployment import read_bundle


def check(file: Path) -> None:
    """Check a bundle without deploying it; prints every fault and warning at once."""
    checked = read_bundle(file, None)
    bundle = checked.bundle
    assert bundle is not None
    print_json({"ok": True, "name": bundle.name, "agents": len(bundle.agents), "warnings": len(checked.warnings)})
