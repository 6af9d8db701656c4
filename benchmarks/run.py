"""usage: run.py [--quick] [--yardstick DIR] [options of drive.py ...]. The program behind `make
bench`.

Runs Memrelay's worker in the yardstick's driver, next to its straight-line program and its
framework handlers, with 5 relays and with 55. Then it compares 50 pipelines with one, the webhook
with an empty aiohttp handler, and REST with a plain aiohttp and aiosqlite service.

The yardstick is a folder of fixed programs, in benchmarks/yardstick. It gets a separate virtual
environment. The command prints tables and writes every round to benchmarks/results/*.json.
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


def prepare_environment(yardstick: Path) -> Path:
    """Return the Python of the yardstick's environment. Create the environment if it is missing."""
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
    """Run the yardstick's driver with Memrelay's worker as two more programs. Return its exit
    status."""
    command_line = f"{sys.executable} {HERE / 'support' / 'serve.py'} {{socket}} {{root}} {{uid}}"
    command = [
        prepare_environment(yardstick),
        yardstick / "drive.py",
        "--json",
        RESULTS / "yardstick.json",
        "--worker",
        f"memrelay={command_line}",
        "--fill-through",
        "memrelay",
        "--worker",
        f"memrelay_55_relays={command_line} --relays 50",
        "--fill-through",
        "memrelay_55_relays",
        *options,
    ]
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Run all benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two modes instead of five")
    parser.add_argument("--yardstick", type=Path, default=HERE / "yardstick")
    given, options = parser.parse_known_args()
    if not (given.yardstick / "drive.py").exists():
        print(
            f"no yardstick at {given.yardstick}: pass its folder with --yardstick DIR",
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
