"""usage: run.py [--quick] [--yardstick DIR] [drive.py's own options ...]. What `make bench` runs.

Puts our worker into the yardstick's driver, beside its straight-line program and its framework
handlers, with five relays and
with fifty more, and measures fifty pipelines against one, our webhook against an aiohttp handler
that does nothing, and REST
against a plain aiohttp and aiosqlite service. The yardstick is a folder of fixed programs,
benchmarks/yardstick; it gets
an environment of its own. Tables are printed, and every round is in benchmarks/results/*.json.
"""

import argparse
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
RESULTS = HERE / "results"
QUICK = ["--modes", "write,mix", "--rounds", "3", "--latency-s", "2", "--drain-s", "3"]


def environment(yardstick: Path) -> Path:
    """The interpreter of the yardstick's environment, which is made where there is none."""
    folder = CHECKOUT / ".venv" / "yardstick"
    python = folder / "bin" / "python"
    if not (folder / ".installed").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "-r", yardstick / "requirements.txt"], check=True
        )
        (folder / ".installed").touch()
    return python


def drive(yardstick: Path, options: list[str]) -> int:
    """Runs the yardstick's driver with our worker as two more programs; returns its exit status."""
    ours = f"{sys.executable} {HERE / 'serve.py'} {{socket}} {{root}} {{uid}}"
    command = [
        environment(yardstick),
        yardstick / "drive.py",
        "--json",
        RESULTS / "yardstick.json",
        "--worker",
        f"memrelay={ours}",
        "--fill-through",
        "memrelay",
        "--worker",
        f"memrelay_55_relays={ours} --relays 50",
        "--fill-through",
        "memrelay_55_relays",
        *options,
    ]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two modes instead of five")
    parser.add_argument("--yardstick", type=Path, default=HERE / "yardstick")
    given, options = parser.parse_known_args()
    if not (given.yardstick / "drive.py").exists():
        print(
            f"there is no yardstick at {given.yardstick}; name its folder with --yardstick DIR",
            file=sys.stderr,
        )
        return 1
    RESULTS.mkdir(exist_ok=True)
    status = drive(given.yardstick, [*(QUICK if given.quick else []), *options])
    for name in ("pipelines", "webhooks", "rest"):
        status = (
            subprocess.run(
                [sys.executable, HERE / f"{name}.py", "--json", RESULTS / f"{name}.json"],
                check=False,
            ).returncode
            or status
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
